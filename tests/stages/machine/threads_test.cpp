#include "stages/machine/threads.h"

#include <sys/resource.h>
#include <torch/types.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/shared/error/stage_error.h"
#include "stages/machine/memory_meter.h"
#include "tests/support/refused.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

class MachineTest : public testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) {
    const auto path = root_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  TemporaryFolder root_;
};

TEST_F(MachineTest, HyperThreadsOfOneCoreCountOnce) {
  for (const auto& [cpu, siblings] :
       {std::pair("0", "0,2"), {"1", "1,3"}, {"2", "0,2"}, {"3", "1,3"}}) {
    put(std::string("sys/devices/system/cpu/cpu") + cpu + "/topology/thread_siblings_list",
        siblings);
  }
  EXPECT_EQ(physical_cores(std::vector{0, 1, 2, 3}, root_.path()), 2);
  EXPECT_EQ(physical_cores(std::vector{0, 2}, root_.path()), 1);
  EXPECT_EQ(physical_cores(std::vector{7, 8}, root_.path()), 2)
      << "each unknown processor counts as a core";
}

TEST_F(MachineTest, CgroupVersion2UsesTheTightestLimitAbove) {
  put("proc/self/cgroup", "0::/batch/job\n");
  put("sys/fs/cgroup/batch/job/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/batch/cpu.max", "150000 100000\n");
  put("sys/fs/cgroup/cpu.max", "800000 100000\n");
  put("sys/fs/cgroup/batch/job/memory.max", "2147483648\n");
  put("sys/fs/cgroup/batch/memory.max", "1073741824\n");
  put("sys/fs/cgroup/memory.max", "4294967296\n");
  EXPECT_EQ(cgroup_cpus(root_.path()), 1.5);
  EXPECT_EQ(cgroup_memory(root_.path()), 1 << 30);
}

TEST_F(MachineTest, CgroupVersion1SeparatesItsControllers) {
  put("proc/self/cgroup", "4:memory:/box\n2:cpu,cpuacct:/\n");
  put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1048576\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpus(root_.path()), 2.0);
  EXPECT_EQ(cgroup_memory(root_.path()), 1 << 20);
}

TEST_F(MachineTest, MissingLimitMeansUnlimited) {
  EXPECT_EQ(cgroup_cpus(root_.path()), std::nullopt);
  put("proc/self/cgroup", "2:cpu:/\n1:memory:/\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(cgroup_cpus(root_.path()), std::nullopt);
  EXPECT_EQ(cgroup_memory(root_.path()), std::nullopt);
}

TEST(Threads, AutoIsOnePerPhysicalCoreWithinTheQuota) {
  EXPECT_EQ(auto_threads(8, std::nullopt, nullptr), 8);
  EXPECT_EQ(auto_threads(8, 2.0, nullptr), 2);
  EXPECT_EQ(auto_threads(8, 1.5, nullptr), 2);
  EXPECT_EQ(auto_threads(8, 0.2, nullptr), 1);
  EXPECT_EQ(auto_threads(0, std::nullopt, nullptr), 1);
}

TEST(Threads, UserVariableTakesPrecedence) {
  EXPECT_EQ(auto_threads(8, 2.0, "3"), 3);
  EXPECT_EQ(auto_threads(8, 2.0, "all"), 2);
  EXPECT_EQ(auto_threads(8, 2.0, "0"), 2);
}

TEST(Threads, RequestedNumberIsUsed) {
  EXPECT_EQ(use_threads(1), 1);
  EXPECT_EQ(use_threads(2), 2);
  EXPECT_GE(use_threads(std::nullopt), 1);
}

TEST(Threads, ProcessHasAtLeastOneCore) { EXPECT_FALSE(allowed_cpus().empty()); }

/// Limits the address space of the process; each thread needs some of it for its stack.
class FewAddresses {
 public:
  FewAddresses() {
    getrlimit(RLIMIT_AS, &before_);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(kilobytes_field("/proc/self/status", "VmSize")) + (64 << 20);
    setrlimit(RLIMIT_AS, &few);
  }
  ~FewAddresses() { setrlimit(RLIMIT_AS, &before_); }
  FewAddresses(const FewAddresses&) = delete;
  FewAddresses& operator=(const FewAddresses&) = delete;

 private:
  rlimit before_{};
};

TEST(UseThreads, UnstartableThreadsAreRejectedBeforeLibTorchWaits) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer needs its own addresses";
  EXPECT_EQ(threads_that_start(3), 3);
  EXPECT_EQ(threads_that_start(0), 0);
  const int before = at::get_num_threads();
  const FewAddresses few;
  EXPECT_LT(threads_that_start(400), 400);
  EXPECT_REFUSED(use_threads(200), kDeviceUnavailable, "/threads", "threads: 200", "ulimit -u");
  EXPECT_EQ(at::get_num_threads(), before);
}

}  // namespace
}  // namespace stages
