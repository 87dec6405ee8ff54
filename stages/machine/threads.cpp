#include "stages/machine/threads.h"

#include <sched.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "runner/shared/error/stage_error.h"
#include "stages/machine/memory_meter.h"
#include "stages/machine/user_variables.h"

namespace stages {

std::vector<int> allowed_cpus() {
  std::vector<int> result;
  // The kernel may support more CPUs than a cpu_set_t can represent; retry with larger sets.
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
  if (const auto request = threads_in(omp_num_threads ? omp_num_threads : "")) return *request;
  const double fed = quota ? std::ceil(*quota) : cores;
  return static_cast<int>(std::clamp(fed, 1.0, static_cast<double>(std::max(cores, 1))));
}

int threads_that_start(int wanted) {
  std::promise<void> all;
  const std::shared_future<void> have_tried = all.get_future().share();
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(std::max(wanted, 0)));
  try {
    while (std::ssize(threads) < wanted) threads.emplace_back([have_tried] { have_tried.wait(); });
  } catch (const std::system_error&) {
    // count only the threads that could be started
  }
  all.set_value();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

int use_threads(std::optional<int> wanted, int ranks) {
  const auto automatic = [ranks] {
    const std::optional<double> quota = cgroup_cpus();
    return auto_threads(physical_cores(allowed_cpus()) / ranks,
                        quota ? std::optional(*quota / ranks) : std::nullopt,
                        std::getenv("OMP_NUM_THREADS"));
  };
  const int threads = wanted ? *wanted : automatic();
  // LibTorch has two thread pools, and this thread belongs to both.
  const int others = 2 * (threads - 1);
  if (const int started = threads_that_start(others); started < others) {
    const int fit = started / 2 + 1;
    throw runner::StageError(
        runner::ErrorCode::kDeviceUnavailable,
        "the system can start only " + std::to_string(started) + " of the " +
            std::to_string(others) +
            " additional threads needed for threads: " + std::to_string(threads))
        .at("/threads")
        .with_help("set threads to " + std::to_string(fit) +
                   " or fewer, or raise the process limit: `ulimit -u`, or pids.max of the "
                   "container");
  }
  at::set_num_threads(threads);
  return at::get_num_threads();
}

}  // namespace stages
