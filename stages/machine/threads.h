#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace stages {

/// The CPUs this process may run on.
std::vector<int> allowed_cpus();

/// The number of physical cores of `cpus`; two hyper-threads of one core count once. `root` is /
/// except in tests.
int physical_cores(std::span<const int> cpus, const std::filesystem::path& root = "/");

/// The value of `threads: auto`: `omp_num_threads`, the user's own choice, if threads_in() finds a
/// number in it; else one thread per physical core, at most `quota` (CPUs); at least 1.
int auto_threads(int cores, std::optional<double> quota, const char* omp_num_threads);

/// How many of `wanted` threads the system can start at the same time: a limit of processes (ulimit
/// -u, pids.max) may allow fewer.
int threads_that_start(int wanted);

/// Sets the threads of tensor operations and returns their number: `wanted`, or auto_threads().
/// Throws StageError if the system cannot start that many: LibTorch would wait forever for the
/// missing ones.
/// `ranks` processes share the machine: by default each has its part of the cores.
int use_threads(std::optional<int> wanted, int ranks = 1);

}  // namespace stages
