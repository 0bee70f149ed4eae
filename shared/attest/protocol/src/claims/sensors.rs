//! The table of a device's sensors.

/// Degrees Celsius above any working silicon.
pub const MAX_TEMPERATURE_C: u32 = 200;
/// Milliwatts above any board: 10 kW.
pub const MAX_POWER_MW: u32 = 10_000_000;
/// MHz several times any clock.
pub const MAX_CLOCK_MHZ: u32 = 50_000;
/// Percent of the time.
pub const MAX_PERCENT: u32 = 100;
/// Bytes tens of times any board's memory: 16 TiB.
pub const MAX_MEMORY_BYTES: u64 = 16 << 40;
/// The largest XID: NVIDIA defines fewer than 200.
pub const MAX_XID: u64 = u16::MAX as u64;
/// Throttle reasons of a claim, each named once: there are 9, with room for newer ones.
pub const MAX_THROTTLE_REASONS: usize = 16;
/// Distinct XIDs of a claim: more in one challenge are not credible.
pub const MAX_XIDS: usize = 16;

/// Calls a macro with one row for each sensor:
///
/// ```text
/// /// the measured quantity, with its unit
/// name: type, max bound => claim: type, summary, log line;
/// ```
///
/// `name` is the value of one reading; above `bound` it cannot be true. `claim` is the field of
/// [`Telemetry`](crate::claims::Telemetry) and of the message `Telemetry` in `proto/`. `summary` makes the claim of the
/// readings (`collect.rs` of `assay-telemetry`), `log line` displays it (`claims/telemetry.rs`).
///
/// A new sensor is a row here, its field in `proto/`, and its line in NVML's `GpuBoard::read`.
#[macro_export]
macro_rules! for_each_sensor {
    ($macro:ident) => {
        $macro! {
            /// Temperature in degrees Celsius.
            temperature_c: Option<u32>, max MAX_TEMPERATURE_C =>
                temperature_c: Option<SensorSpread>, Mean, spread(1, "°C");
            /// Power draw in milliwatts.
            power_mw: Option<u32>, max MAX_POWER_MW =>
                power_mw: Option<SensorSpread>, Mean, spread(1000, "W");
            /// Clock of the multiprocessors.
            sm_clock_mhz: Option<u32>, max MAX_CLOCK_MHZ =>
                sm_clock_mhz: Option<SensorSpread>, Mean, spread(1, "MHz SM");
            /// Clock of the memory.
            memory_clock_mhz: Option<u32>, max MAX_CLOCK_MHZ =>
                memory_clock_mhz: Option<SensorSpread>, Mean, spread(1, "MHz memory");
            /// Percent of the time in which a kernel ran.
            gpu_utilisation_percent: Option<u32>, max MAX_PERCENT =>
                gpu_utilisation_percent: Option<SensorSpread>, Mean, spread(1, "% GPU");
            /// Percent of the time in which memory was read or written.
            memory_utilisation_percent: Option<u32>, max MAX_PERCENT =>
                memory_utilisation_percent: Option<SensorSpread>, Mean, spread(1, "% memory");
            /// Memory in use; of several readings the most.
            memory_used_bytes: Option<u64>, max MAX_MEMORY_BYTES =>
                memory_used_max_bytes: Option<u64>, Largest, mebibytes("in use");
            /// Why clocks were reduced; of several readings every reason.
            throttle_reasons: BTreeSet<ThrottleReason> =>
                throttle_reasons: BTreeSet<ThrottleReason>, Union<MAX_THROTTLE_REASONS>, reasons("clocks held by");
            /// Corrected memory errors: a reading is a counter, a claim its increase.
            ecc_corrected: Option<u64> =>
                ecc_corrected: Option<u64>, Increase, errors("memory errors corrected");
            /// Uncorrected memory errors: a reading is a counter, a claim its increase.
            ecc_uncorrected: Option<u64> =>
                ecc_uncorrected: Option<u64>, Increase, no_part();
            /// The driver's error codes (XIDs) since the work began.
            xids: Vec<u64>, max MAX_XID =>
                xids: BTreeSet<u32>, Union<MAX_XIDS>, no_part();
        }
    };
}
