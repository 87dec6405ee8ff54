#include "stages/memory/other_devices.h"

#include <new>
#include <stdexcept>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "runner/error/stage_error.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const at::Device kGpu(at::kCUDA, 0);

TEST(OtherDevices, AreThoseOfThePolicyInItsOrderButForItsOwn) {
  MemoryPolicy policy;
  EXPECT_THAT(other_devices(policy, kGpu), IsEmpty());
  policy.recovery.on_oom = {OnOom::kReplan, OnOom::kGpu, OnOom::kCpu, OnOom::kStop};
  EXPECT_THAT(other_devices(policy, kGpu), ElementsAre("gpu", "cpu"));
  EXPECT_THAT(other_devices(policy, at::kCPU), IsEmpty()) << "a run on the CPU does not go to a GPU";
  policy.recovery.on_oom = {OnOom::kCpu, OnOom::kGpu};
  EXPECT_THAT(other_devices(policy, kGpu), ElementsAre("cpu", "gpu"));
}

TEST(OtherDevices, AreNamedByWhatIsThrown) {
  MemoryPolicy policy;
  policy.recovery.on_oom = {OnOom::kReplan, OnOom::kCpu, OnOom::kStop};
  const auto run_out = [] { throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "full"); };
  try {
    run_or_go_elsewhere(policy, kGpu, run_out);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const runner::StageError& error) {
    EXPECT_EQ(error.code, runner::ErrorCode::kOutOfMemory);
    EXPECT_STREQ(error.what(), "out of memory");
    EXPECT_THAT(error.other_devices, ElementsAre("cpu"));
    EXPECT_EQ(error.incident.cause, "out of memory");
  }
  EXPECT_THROW(run_or_go_elsewhere(policy, at::kCPU, run_out), c10::OutOfMemoryError);
  EXPECT_THROW(run_or_go_elsewhere({}, kGpu, run_out), c10::OutOfMemoryError);
  EXPECT_THROW(run_or_go_elsewhere(policy, kGpu, [] { throw std::runtime_error("broken"); }), std::runtime_error);
}

}  // namespace
}  // namespace stages
