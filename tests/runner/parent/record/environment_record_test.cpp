#include "runner/parent/record/environment_record.h"

#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/shared/protocol/event.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

TEST(EnvironmentRecord, KeepsOnlyVariablesOnTheAllowList) {
  const char* const environment[] = {"OMP_NUM_THREADS=2",
                                     "HOME=/elsewhere",
                                     "HF_TOKEN=hf_abc",
                                     "PYTORCH_API_KEY=abc",
                                     "SLURM_JOB_ID=17",
                                     "CUDA_VISIBLE_DEVICES=",
                                     "SLURM_JOB_USER=me",
                                     "MKL_DYNAMIC=FALSE",
                                     "strange",
                                     "PYTORCH_CUDA_ALLOC_CONF=x=1",
                                     nullptr};
  const auto record = environment_record({{"libtorch", "2.11.0"}}, environment, "/nonexistent");
  EXPECT_EQ(
      record["variables"].dump(),
      R"({"CUDA_VISIBLE_DEVICES":"","MKL_DYNAMIC":"FALSE","OMP_NUM_THREADS":"2","PYTORCH_CUDA_ALLOC_CONF":"x=1","SLURM_JOB_ID":"17"})");
}

TEST(EnvironmentRecord, AllowListHasNoSecrets) {
  for (const std::string prefix : {"OMP_", "MKL_", "PYTORCH_"}) {
    EXPECT_TRUE(is_recorded_variable(prefix + "NUM_THREADS"));
    for (const char* word : {"TOKEN", "API_KEY", "SECRET", "PASSWORD", "password", "Token_2"})
      EXPECT_FALSE(is_recorded_variable(prefix + word)) << prefix << word;
  }
  for (const char* other :
       {"", "HOME", "USER", "PATH", "XOMP_A", "SLURM_JOB_ID_", "CUDA_VISIBLE", "AWS_REGION"})
    EXPECT_FALSE(is_recorded_variable(other)) << other;
}

TEST(EnvironmentRecord, DescribesTheMachineButNotItsName) {
  const TemporaryFolder proc;
  std::ofstream(proc.path() / "cpuinfo")
      << "processor\t: 0\nmodel name\t: Great CPU 9000\nflags\t: fpu avx2 avx512f avx512f_x\n";
  std::ofstream(proc.path() / "meminfo") << "MemTotal:       16384 kB\nMemFree: 1 kB\n";
  const char* const none[] = {nullptr};
  const auto record = environment_record({{"libtorch", "2.11.0"}}, none, proc.path());
  EXPECT_EQ(record["retort"], build_id());
  EXPECT_EQ(record["versions"]["libtorch"], "2.11.0");
  EXPECT_EQ(record["cpu"]["model"], "Great CPU 9000");
  EXPECT_EQ(record["cpu"]["instruction_sets"].dump(), R"(["avx2","avx512f"])");
  EXPECT_EQ(record["memory_bytes"], 16384 * 1024);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  EXPECT_EQ(record.dump().find('"' + std::string(host) + '"'), std::string::npos);
}

}  // namespace
}  // namespace runner
