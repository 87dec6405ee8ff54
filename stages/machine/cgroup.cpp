#include "stages/machine/cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace stages {
namespace {

namespace fs = std::filesystem;

/// The folders that may limit `controller`, the process's own first.
std::vector<fs::path> folders(const fs::path& root, const std::string& controller) {
  std::vector<fs::path> result;
  const auto add_with_parents = [&](const fs::path& mount, fs::path group) {
    for (; group.has_relative_path(); group = group.parent_path()) result.push_back(mount / group.relative_path());
    result.push_back(mount);
  };
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::/group" or "4:cpu,cpuacct:/group"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path mount = root / "sys/fs/cgroup";
    if (controllers == ",,") add_with_parents(mount, line.substr(second + 1));
    else if (controllers.find("," + controller + ",") != controllers.npos) {
      add_with_parents(mount / controller, line.substr(second + 1));
    }
  }
  return result;
}

/// The words of the one line of `file`; empty when there is none.
std::vector<std::string> words(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

std::optional<double> positive_number(const std::string& word) {
  char* end = nullptr;
  const double number = std::strtod(word.c_str(), &end);
  if (word.empty() || *end || !(number > 0)) return std::nullopt;  // "max", "-1"
  return number;
}

template <typename T>
void lower(std::optional<T>& least, T candidate) {
  least = least ? std::min(*least, candidate) : candidate;
}

}  // namespace

std::optional<double> cgroup_cpus(const fs::path& root) {
  std::optional<double> least;
  for (const fs::path& folder : folders(root, "cpu")) {
    std::vector<std::string> limit = words(folder / "cpu.max");  // "150000 100000"
    if (limit.empty()) {
      limit = words(folder / "cpu.cfs_quota_us");
      const auto period = words(folder / "cpu.cfs_period_us");
      limit.insert(limit.end(), period.begin(), period.end());
    }
    if (limit.size() < 2) continue;
    const auto quota = positive_number(limit[0]), period = positive_number(limit[1]);
    if (quota && period) lower(least, *quota / *period);
  }
  return least;
}

std::optional<std::int64_t> cgroup_memory(const fs::path& root) {
  constexpr double kUnlimited = 1e18;  // version 1 says "no limit" with the largest number of pages
  std::optional<std::int64_t> least;
  for (const fs::path& folder : folders(root, "memory")) {
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      const auto limit = words(folder / name);
      const auto bytes = limit.empty() ? std::nullopt : positive_number(limit[0]);
      if (bytes && *bytes < kUnlimited) lower(least, static_cast<std::int64_t>(*bytes));
    }
  }
  return least;
}

}  // namespace stages
