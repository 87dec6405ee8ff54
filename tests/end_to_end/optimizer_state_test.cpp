// End-to-end tests of 8-bit optimizer state.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/latest_weights.h"
#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;

class OptimizerState : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made = retort(
        "data make image_folder --out photos --classes 2 --per-class 10 --size 24 --seed 5 -q",
        folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.keep();
  }
  static std::string recipe(const std::string& more) {
    return " quickstart data.root=photos data.make=null data.image_size=16 model.patch_size=8 "
           "model.num_hidden_layers=2 train.epochs=2 train.batch_size=9 "
           "train.checkpoint.every.steps=1 device=cpu " +
           more;
  }
  Ended train(const std::string& name, const std::string& more, const std::string& fault = "") {
    return run_shell((fault.empty() ? "" : "RETORT_FAULT=" + fault + ' ') + RETORT_BINARY_DIR +
                         "/bin/retort run" + recipe(more) + " run.dir=" + name,
                     folder_.path());
  }
  /// The bytes of optimizer state at the peak, and the needed bytes of training.
  std::pair<double, double> planned(const std::string& more) {
    const Ended ended = retort("plan" + recipe(more) + " --json", folder_.path());
    EXPECT_EQ(ended.exit, 0) << ended.err;
    const json plan = json::parse(ended.out).at("result").at("plans").at(0);
    double state = 0;
    for (const json& owner : plan.at("owners")) {
      if (owner.at("name") == "optimizer_state") state = owner.at("bytes");
    }
    return {state, plan.at("needed").get<double>()};
  }

  SharedFolder folder_;
};

constexpr const char* k8Bits = "train.optimizer.state_bits=8 ";

TEST_F(OptimizerState, ResumedTrainingIsBitIdentical) {
  for (const std::string more : {"", "train.gradient_clip_norm=0.1 'train.ema={decay: 0.5}'"}) {
    const std::string name = more.empty() ? "plain" : "averaged";
    ASSERT_EQ(train(name, k8Bits + more).exit, 0);
    ASSERT_NE(train(name + "-killed", k8Bits + more, "retort-worker/step:3:kill_both").exit, 0);
    const Ended changed =
        retort("resume " + name + "-killed train.optimizer.state_bits=32", folder_.path());
    EXPECT_EQ(changed.exit, 78);
    EXPECT_THAT(changed.err,
                HasSubstr("'train.optimizer.state_bits' was 8 and is now 32: the saved state is "
                          "incompatible with this change [/train/optimizer/state_bits]"));
    const Ended resumed = retort("resume " + name + "-killed", folder_.path());
    ASSERT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_TRUE(latest_weights(folder_ / (name + "-killed")) == latest_weights(folder_ / name));
  }
  ASSERT_EQ(train("full", "").exit, 0);
  EXPECT_FALSE(latest_weights(folder_ / "full") == latest_weights(folder_ / "plain"));
}

TEST_F(OptimizerState, PlanCountsAQuarterOfTheState) {
  const auto [full, all] = planned("");
  const auto [eight, less] = planned(k8Bits);
  EXPECT_LT(eight, 0.35 * full) << "small weights keep 32-bit state";
  EXPECT_LT(less, all);
}

TEST_F(OptimizerState, PlanThatDoesNotFitSuggests8BitState) {
  const std::string large = "memory=as_written model.hidden_size=512 train.batch_size=1 ";
  const auto [state, needed] = planned(large);
  const auto budget = static_cast<std::int64_t>(needed - state / 4) >> 20;
  const Ended ended = retort(
      "plan" + recipe(large) + "memory.budget=" + std::to_string(budget) + "MiB", folder_.path());
  EXPECT_EQ(ended.exit, 1);
  EXPECT_THAT(ended.err + ended.out, HasSubstr("train.optimizer.state_bits=8"));
}

TEST_F(OptimizerState, EightBitStateWithoutLargeWeightsCausesAWarning) {
  const Ended ended =
      train("small", std::string(k8Bits) + "model.hidden_size=16 model.intermediate_size=32");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("state_bits: 8 has no effect: no trained weight has 4096 "
                                   "elements or more"));
}

}  // namespace
