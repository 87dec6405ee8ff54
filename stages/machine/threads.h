#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace stages {

/// The CPUs this process may run on.
std::vector<int> allowed_cpus();

/// How many physical cores `cpus` belong to; two hyper-threads of one core count once. `root` is /
/// but in tests.
int physical_cores(std::span<const int> cpus, const std::filesystem::path& root = "/");

/// What `threads: auto` means: `omp_num_threads` where threads_in() finds a number (the user's own
/// wish), else one thread a physical core, at most what `quota` (CPUs) can feed; at least 1.
int auto_threads(int cores, std::optional<double> quota, const char* omp_num_threads);

/// How many threads of `wanted` the system starts at the same time: a limit of processes (ulimit
/// -u, pids.max) may stand against more.
int threads_that_start(int wanted);

/// Sets the threads of tensor operations and gives back how many there are: `wanted`, or
/// auto_threads(). Throws StageError where the system does not start so many: LibTorch would wait
/// for those that are missing without end.
int use_threads(std::optional<int> wanted);

}  // namespace stages
