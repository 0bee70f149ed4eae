# A miner on every client with NVIDIA GPUs. Each client has a host volume of its own for the key.
variable "validator" {
  type        = string
  description = "The line that `assay-validator address` prints"
}

job "assay-miner" {
  type = "system"

  constraint {
    attribute = "${attr.driver.docker.runtimes}"
    operator  = "set_contains"
    value     = "nvidia"
  }

  group "miner" {
    volume "state" {
      type   = "host"
      source = "assay-miner"
    }

    task "miner" {
      driver = "docker"
      user   = "10001:10001"

      # Longer than drain_timeout_s; the agent's client has to allow it (max_kill_timeout).
      kill_timeout = "90s"

      config {
        image           = "assay-miner:0.1.0"
        runtime         = "nvidia"
        readonly_rootfs = true
        cap_drop        = ["all"]
        security_opt    = ["no-new-privileges"]

        healthchecks {
          disable = false
        }
      }

      env {
        ASSAY_MINER_VALIDATOR  = var.validator
        ASSAY_MINER_LOG_FORMAT = "json"
      }

      volume_mount {
        volume      = "state"
        destination = "/var/lib/assay"
      }

      resources {
        cpu    = 2000
        memory = 4096
      }
    }
  }
}
