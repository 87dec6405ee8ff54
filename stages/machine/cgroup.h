#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace stages {

/// What the kernel's control groups allow this process: containers and batch systems set these. Version 1 and 2, the
/// process's own group and everything above it. `root` is / but in tests.

/// CPU time a second, e.g. 1.5; nullopt when it is not limited.
std::optional<double> cgroup_cpus(const std::filesystem::path& root = "/");

/// Bytes of memory; nullopt when they are not limited.
std::optional<std::int64_t> cgroup_memory(const std::filesystem::path& root = "/");

}  // namespace stages
