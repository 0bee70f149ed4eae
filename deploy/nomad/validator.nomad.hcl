# A validator. The key and the records are on a host volume, so that the job stays on the node that has it.
job "assay-validator" {
  type = "service"

  group "validator" {
    count = 1

    network {
      port "assay" {
        static = 7400
      }
    }

    volume "state" {
      type   = "host"
      source = "assay-validator"
    }

    service {
      name     = "assay-validator"
      provider = "nomad"
      port     = "assay"
    }

    task "validator" {
      driver = "docker"
      user   = "10001:10001"

      # Longer than drain_timeout_s; the agent's client has to allow it (max_kill_timeout).
      kill_timeout = "90s"

      config {
        image           = "assay-validator:0.1.0"
        ports           = ["assay"]
        readonly_rootfs = true
        cap_drop        = ["all"]
        security_opt    = ["no-new-privileges"]

        mount {
          type   = "tmpfs"
          target = "/run/assay"

          tmpfs_options {
            mode = 511
          }
        }
      }

      env {
        ASSAY_VALIDATOR_ADVERTISE  = "${attr.unique.network.ip-address}:7400"
        ASSAY_VALIDATOR_LOG_FORMAT = "json"
      }

      volume_mount {
        volume      = "state"
        destination = "/var/lib/assay"
      }

      resources {
        cpu    = 1000
        memory = 2048
      }
    }
  }
}
