#include "stages/plan/plan_alternatives.h"

#include <gmock/gmock.h>

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Returns a policy at its usual pointer.
MemoryPolicy policy_at_memory() {
  MemoryPolicy policy;
  policy.pointer = "/memory";
  return policy;
}

const CutBatch kBatch{.size = 64, .units = 60, .accumulated_by = ""};

TEST(PolicyOverrides, EqualPoliciesNeedNoOverrides) {
  EXPECT_THAT(overrides_between(policy_at_memory(), policy_at_memory(), kBatch), IsEmpty());
}

TEST(PolicyOverrides, EachDifferenceIsOneOverride) {
  MemoryPolicy to = policy_at_memory();
  to.micro_batch = 4;
  to.two_pass = true;
  to.activation_checkpointing.modules = {"model.a", "model.b"};
  to.precision.base = Precision::kBf16;
  EXPECT_THAT(
      overrides_between(policy_at_memory(), to, kBatch),
      ElementsAre("memory.micro_batch=4", "memory.two_pass=on",
                  "memory.activation_checkpointing=[model.a,model.b]", "memory.precision=bf16"));
}

TEST(PolicyOverrides, SetOptionsAreReset) {
  MemoryPolicy from = policy_at_memory();
  from.two_pass = true;
  from.activation_checkpointing.blocks = true;
  EXPECT_THAT(overrides_between(from, policy_at_memory(), kBatch),
              ElementsAre("memory.two_pass=off", "memory.activation_checkpointing=none"));
}

TEST(PolicyOverrides, MicroBatchReplacesAccumulation) {
  MemoryPolicy to = policy_at_memory();
  to.micro_batch = 4;
  EXPECT_THAT(overrides_between(policy_at_memory(), to,
                                {.size = 64, .units = 60, .accumulated_by = "/train"}),
              ElementsAre("train.gradient_accumulation_steps=1", "train.batch_size=64",
                          "memory.micro_batch=4"));
}

}  // namespace
}  // namespace stages
