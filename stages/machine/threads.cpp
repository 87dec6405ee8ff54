#include "stages/machine/threads.h"

#include <sched.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "stages/machine/cgroup.h"
#include "stages/machine/user_variables.h"

namespace stages {

std::vector<int> allowed_cpus() {
  std::vector<int> result;
  // The kernel may know more CPUs than a cpu_set_t holds; ask with ever larger sets.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 20; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    const std::size_t size = CPU_ALLOC_SIZE(capacity);
    const bool is_known = sched_getaffinity(0, size, set) == 0;
    for (int cpu = 0; is_known && cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, size, set)) result.push_back(cpu);
    }
    CPU_FREE(set);
    if (is_known) break;
  }
  return result;
}

int physical_cores(std::span<const int> cpus, const std::filesystem::path& root) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string name = "cpu" + std::to_string(cpu);
    std::ifstream in(root / "sys/devices/system/cpu" / name / "topology/thread_siblings_list");
    std::string siblings;
    cores.insert(std::getline(in, siblings) ? siblings : name);
  }
  return static_cast<int>(cores.size());
}

int auto_threads(int cores, std::optional<double> quota, const char* omp_num_threads) {
  if (const auto wish = threads_in(omp_num_threads ? omp_num_threads : "")) return *wish;
  const double fed = quota ? std::ceil(*quota) : cores;
  return static_cast<int>(std::clamp(fed, 1.0, static_cast<double>(std::max(cores, 1))));
}

int use_threads(std::optional<int> wanted) {
  const auto automatic = [] {
    return auto_threads(physical_cores(allowed_cpus()), cgroup_cpus(), std::getenv("OMP_NUM_THREADS"));
  };
  at::set_num_threads(wanted ? *wanted : automatic());
  return at::get_num_threads();
}

}  // namespace stages
