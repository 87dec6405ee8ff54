#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace stages {

/// Returns the CPUs that this process may run on.
std::vector<int> allowed_cpus();

/// Returns the number of physical cores among `cpus`; the hyper-threads of a core count once.
/// `root` is / except in tests.
int physical_cores(std::span<const int> cpus, const std::filesystem::path& root = "/");

/// Returns the value of `threads: auto`: the number in `omp_num_threads`, set by the user, if
/// threads_in() finds one; otherwise one thread per physical core, but at most `quota` CPUs and at
/// least 1.
int auto_threads(int cores, std::optional<double> quota, const char* omp_num_threads);

/// Returns how many of the `wanted` threads the system can run at the same time. A process limit
/// (ulimit -u, pids.max) may allow fewer.
int threads_that_start(int wanted);

/// Sets the number of threads for tensor operations to `wanted` or auto_threads(), and returns it.
/// `ranks` processes share the machine: by default each uses its share of the cores. Throws
/// StageError if the system cannot start that many threads, since LibTorch would wait forever for
/// the missing ones.
int use_threads(std::optional<int> wanted, int ranks = 1);

}  // namespace stages
