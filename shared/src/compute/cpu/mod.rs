//! The CPU backend: virtual devices over host memory and threads.
