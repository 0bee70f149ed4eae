//! The metrics common to all daemons: a table of families, and counts of spans.

use prometheus::core::{
    Atomic, Collector, GenericCounter, GenericCounterVec, GenericGauge, GenericGaugeVec, MetricVec, MetricVecBuilder,
};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};

/// Upper bounds of durations between a check of a part of the openings and a challenge of an hour.
pub const SECONDS: [f64; 15] =
    [0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

/// A family of metrics: a row of a table that [`families`](crate::families) makes.
#[derive(Debug, Clone, Copy)]
pub struct MetricDescription {
    /// The whole name.
    pub name: &'static str,
    /// The name of its [`MetricKind`].
    pub kind: &'static str,
    /// The names of its labels. Each has a set of values that the program knows, so that no peer adds a series.
    pub labels: &'static [&'static str],
    /// A sentence for `HELP`.
    pub help: &'static str,
    /// Upper bounds of a histogram.
    pub buckets: &'static [f64],
}

/// A type of metrics.
pub trait MetricKind: Collector + Clone + 'static {
    /// The type as Prometheus names it.
    const NAME: &'static str;

    /// Makes a family, without series where it has labels.
    ///
    /// # Errors
    /// The name or a label is malformed.
    fn of(family: &MetricDescription) -> prometheus::Result<Self>;
}

/// A type of this name, without labels and with them.
macro_rules! kind {
    ($name:literal, $one:ident, $labelled:ident) => {
        impl<P: Atomic + 'static> MetricKind for $one<P> {
            const NAME: &'static str = $name;

            fn of(family: &MetricDescription) -> prometheus::Result<Self> {
                Self::with_opts(family.opts())
            }
        }

        impl<P: Atomic + 'static> MetricKind for $labelled<P> {
            const NAME: &'static str = $name;

            fn of(family: &MetricDescription) -> prometheus::Result<Self> {
                Self::new(family.opts(), family.labels)
            }
        }
    };
}

kind!("counter", GenericCounter, GenericCounterVec);
kind!("gauge", GenericGauge, GenericGaugeVec);

impl MetricKind for HistogramVec {
    const NAME: &'static str = "histogram";

    fn of(family: &MetricDescription) -> prometheus::Result<Self> {
        Self::new(HistogramOpts::from(family.opts()).buckets(family.buckets.to_vec()), family.labels)
    }
}

impl MetricDescription {
    fn opts(&self) -> Opts {
        Opts::new(self.name, self.help)
    }

    /// Registers it.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub fn register<K: MetricKind>(&self, registry: &Registry) -> Result<K, MetricsError> {
        let metric = K::of(self)?;
        registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}

/// Defines the families of a program as one table: a row has the name behind the program's, the type, the labels, the help
/// text, and for a histogram its buckets. It makes a struct with a field for each row, `ALL`, and `register`.
#[macro_export]
macro_rules! families {
    (@row $program:literal $name:ident $kind:ident [$($label:literal),*] $help:literal $($buckets:expr)?) => {
        $crate::metrics::MetricDescription {
            name: concat!($program, "_", stringify!($name)),
            kind: <$crate::prometheus::$kind as $crate::metrics::MetricKind>::NAME,
            labels: &[$($label),*],
            help: $help,
            buckets: [$(&$buckets as &[f64],)? &[] as &[f64]][0],
        }
    };
    ($(#[$about:meta])* $table:ident of $program:literal {
        $($name:ident: $kind:ident $labels:tt, $help:literal $(, $buckets:expr)?;)*
    }) => {
        $(#[$about])*
        #[derive(Clone)]
        pub struct $table {
            $(#[doc = $help] pub $name: $crate::prometheus::$kind,)*
        }

        impl $table {
            /// Every family.
            pub const ALL: &'static [$crate::metrics::MetricDescription] =
                &[$($crate::families!(@row $program $name $kind $labels $help $($buckets)?)),*];

            /// Registers every family.
            ///
            /// # Errors
            /// A name or a label is malformed, or the name is registered already.
            pub fn register(
                registry: &$crate::prometheus::Registry,
            ) -> Result<Self, $crate::metrics::MetricsError> {
                Ok(Self {
                    $($name: $crate::families!(@row $program $name $kind $labels $help $($buckets)?)
                        .register(registry)?,)*
                })
            }
        }
    };
}

/// Counts of exported and lost spans.
#[derive(Debug, Clone)]
pub struct TraceCounts {
    /// Spans that the collector took.
    pub exported: IntCounter,
    /// Spans that were dropped.
    pub lost: IntCounter,
}

impl TraceCounts {
    /// Counts in a family that has them by `outcome`.
    pub fn of(family: &IntCounterVec) -> Self {
        let [exported, lost] = ["exported", "lost"].map(|outcome| family.with_label_values(&[outcome]));
        Self { exported, lost }
    }
}

/// Why a registry refuses a metric: its name or its labels are malformed, or it is there already. Either is a mistake of
/// the program.
#[derive(Debug, thiserror::Error)]
#[error("a metric cannot be registered: {0}")]
pub struct MetricsError(#[from] prometheus::Error);

/// Makes series before anything is counted: a rate has a first value then.
pub fn show<'a, T: MetricVecBuilder, const N: usize>(
    family: &MetricVec<T>,
    series: impl IntoIterator<Item = [&'a str; N]>,
) {
    for labels in series {
        family.with_label_values(&labels);
    }
}

/// Raises a counter to a count that is kept elsewhere.
pub fn advance<P: Atomic>(counter: &GenericCounter<P>, mut count: P::T) {
    let before = counter.get();
    if count > before {
        count -= before;
        counter.inc_by(count);
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    families! {
        /// A table.
        TestFamilies of "assay_test" {
            build_info: IntGaugeVec ["version"], "A gauge.";
            trace_spans_total: IntCounterVec ["outcome"], "A counter.";
            idle_seconds_total: Counter [], "Another.";
            phase_seconds: HistogramVec ["phase", "end"], "A histogram.", [0.5, 2.0];
        }
    }

    #[test]
    fn a_page_has_what_the_table_says() {
        let registry = Registry::new();
        let families = TestFamilies::register(&registry).unwrap();
        families.build_info.with_label_values(&["1.2.3"]).set(1);
        TraceCounts::of(&families.trace_spans_total).lost.inc_by(3);
        show(&families.phase_seconds, [["a", "done"]]);
        for count in [2.5, 1.0, 2.5] {
            advance(&families.idle_seconds_total, count);
        }
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for part in [
            "assay_test_build_info{version=\"1.2.3\"} 1\n",
            "# HELP assay_test_trace_spans_total A counter.\n# TYPE assay_test_trace_spans_total counter\n",
            "assay_test_trace_spans_total{outcome=\"exported\"} 0\nassay_test_trace_spans_total{outcome=\"lost\"} 3\n",
            "assay_test_idle_seconds_total 2.5\n",
            "# TYPE assay_test_phase_seconds histogram\n",
            "assay_test_phase_seconds_bucket{end=\"done\",phase=\"a\",le=\"2\"} 0\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(
            TestFamilies::ALL.iter().map(|family| family.kind).collect::<Vec<_>>(),
            ["gauge", "counter", "counter", "histogram"]
        );
    }

    #[test]
    fn a_name_is_registered_once() {
        let registry = Registry::new();
        TestFamilies::register(&registry).unwrap();
        let error = TestFamilies::register(&registry).err().unwrap();
        assert!(error.to_string().contains("cannot be registered"), "{error}");
    }
}
