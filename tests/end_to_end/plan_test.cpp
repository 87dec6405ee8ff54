// End-to-end tests of `retort plan`.

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_folder.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;

class Plan : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.is_made()) return;
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 10 --size 32 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write("r.yaml",
                  "schema: 1\n"
                  "defaults: [{data: image_folder}, {model: tiny}, {memory: as_written}, {train: "
                  "from_scratch}, _self_]\n"
                  "data: {root: photos}\n"
                  "train: {epochs: 1, batch_size: 8}\n"
                  "evaluate: {kind: evaluate.classification}\n");
    folder_.keep();
  }
  Ended plan(const std::string& more = "") { return retort("plan r.yaml " + more, folder_.path()); }
  json answer(const std::string& more = "") {
    return json::parse(plan("--json " + more).out).at("result");
  }
  std::int64_t needs(const std::string& more = "") {
    return answer(more).at("plans").at(0).at("needed");
  }
  /// Checks that each alternative in a plan needs as much memory as the plan states. Checks at most
  /// `most` alternatives, evenly spaced, since each takes a command.
  void expect_stated_needs(const std::string& cut, std::size_t most) {
    SCOPED_TRACE(cut);
    json offered = answer(cut).at("plans").at(0).at("alternatives");
    offered.erase(std::remove_if(offered.begin(), offered.end(),
                                 [](const json& one) { return one.contains("refused"); }),
                  offered.end());
    EXPECT_GE(offered.size(), 4U);
    const std::size_t step = std::max<std::size_t>(1, offered.size() / most);
    for (std::size_t i = 0; i < offered.size(); i += step) {
      std::string overrides = cut;
      for (const json& override : offered[i].at("overrides"))
        overrides += " " + override.get<std::string>();
      EXPECT_EQ(needs(overrides), offered[i].at("needed")) << overrides;
    }
  }
  void expect_no_cpu_in_the_plan_for(const std::string& asked, const std::string& named) {
    const Ended planned = plan("--gpu '" + asked + "'");
    EXPECT_EQ(planned.exit, 0) << asked << planned.err;
    EXPECT_THAT(planned.out, HasSubstr(named)) << asked;
    const std::string said = planned.out + planned.err;
    for (const char* of_processor : {"thread", "avx", "AVX", "oneDNN", "onednn", "mkldnn", "MKL",
                                     "brgemm", "jit", "CPU", "machine's memory"}) {
      EXPECT_EQ(said.find(of_processor), std::string::npos) << asked << ": " << of_processor << '\n'
                                                            << said;
    }
  }
  bool wrote_anything() const {
    return std::filesystem::exists(folder_ / "run") || std::filesystem::exists(folder_ / "outputs");
  }
  SharedFolder folder_;
};

/// Every plan takes a second.
class DeepPlan : public Plan {};

TEST_F(Plan, ShowsAndDrawsTheMemoryOfEachNodeWithoutRunning) {
  const Ended ended = plan("--svg curve.svg --detailed-exitcode");
  EXPECT_EQ(ended.exit, 2) << "stages would run: " << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("train on cpu, "));
  EXPECT_THAT(ended.out, HasSubstr("peak in backward"));
  EXPECT_THAT(ended.out, HasSubstr("saved_activation"));
  EXPECT_THAT(ended.out, HasSubstr("model.vision_model.encoder.layers.0"));
  EXPECT_THAT(ended.out, HasSubstr("evaluate on cpu, "));
  EXPECT_THAT(ended.out, HasSubstr("fits: the run needs the most memory at train"));
  EXPECT_THAT(file_text(folder_ / "curve.train.svg"), HasSubstr("<svg"));
  EXPECT_FALSE(wrote_anything());
}

TEST_F(Plan, SmallerMicroBatchesNeedLessMemory) {
  const std::int64_t whole = needs();
  EXPECT_LT(needs("memory.micro_batch=2"), whole);
  EXPECT_LT(needs("train.batch_size=2"), whole);
}

TEST_F(Plan, AlternativesNeedTheMemoryThatThePlanStates) {
  expect_stated_needs("", 4);
  expect_stated_needs("train.batch_size=4 train.gradient_accumulation_steps=2", 2);
}

TEST_F(DeepPlan, EveryAlternativeNeedsTheMemoryThatThePlanStates) {
  for (const char* const cut :
       {"", "memory.micro_batch=4", "train.batch_size=4 train.gradient_accumulation_steps=2"})
    expect_stated_needs(cut, 100);
}

TEST_F(Plan, ErrorSuggestsAnAlternativeThatFits) {
  const json alone = answer("memory.micro_batch=2");
  const std::string budget =
      std::to_string(alone.at("plans").at(0).at("needed").get<double>() / (1 << 20) + 0.1);
  const std::string enough = budget.substr(0, budget.find('.') + 4) + "MiB";
  const Ended planned = plan("--budget " + enough);
  EXPECT_EQ(planned.exit, 1);
  EXPECT_THAT(planned.err, HasSubstr("error[E0706]: 'train' needs"));
  EXPECT_THAT(planned.err, HasSubstr("help: memory."));
  EXPECT_THAT(planned.err, HasSubstr(" fits: "));
}

TEST_F(Plan, RunThatDoesNotFitIsRejectedBeforeAnythingIsWritten) {
  const Ended ended = retort("run r.yaml run.dir=run memory.budget=1MiB", folder_.path());
  EXPECT_EQ(ended.exit, 1);
  EXPECT_THAT(ended.err, HasSubstr("error[E0706]: 'train' needs"));
  EXPECT_THAT(ended.err, HasSubstr("(memory.budget)"));
  EXPECT_FALSE(wrote_anything());
}

TEST_F(Plan, GeneratedImagesArePlannedFromTheirOptions) {
  const Ended planned = retort("plan quickstart", folder_.path());
  EXPECT_EQ(planned.exit, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("fits: the run needs the most memory at train"));
  const Ended refused = retort("run quickstart memory.budget=1MiB", folder_.path());
  EXPECT_EQ(refused.exit, 1);
  EXPECT_FALSE(wrote_anything());
}

TEST_F(Plan, RunRecordsItsPlan) {
  const Ended ended = retort("run r.yaml run.dir=run", folder_.path());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  const json record = json::parse(file_text(folder_ / "run" / "nodes" / "train" / "plan.json"));
  EXPECT_EQ(record.at("needed"), needs());
}

TEST_F(Plan, PlansForAnAbsentDeviceByName) {
  const json plan = answer("--gpu L4").at("plans").at(0);
  EXPECT_EQ(plan.at("device"), "NVIDIA L4");
  EXPECT_EQ(plan.at("budget_from"), "NVIDIA L4");
  EXPECT_GT(plan.at("needed").get<std::int64_t>(), plan.at("live").get<std::int64_t>());
}

/// A plan for a GPU mentions neither the threads nor the kernels of this machine's CPU.
TEST_F(Plan, PlanForAnAbsentGpuDoesNotMentionTheCpu) {
  expect_no_cpu_in_the_plan_for("V100", "V100");
  expect_no_cpu_in_the_plan_for("A100 80GB", "NVIDIA A100 80GB");
  const Ended unknown = plan("--gpu 'GTX 9999'");
  EXPECT_NE(unknown.exit, 0);
  EXPECT_THAT(unknown.err, HasSubstr("GTX 9999"));
}

TEST_F(DeepPlan, PlanForOtherAbsentGpusDoesNotMentionTheCpu) {
  expect_no_cpu_in_the_plan_for("P100", "P100");
  expect_no_cpu_in_the_plan_for("T4", "NVIDIA T4");
  expect_no_cpu_in_the_plan_for("l4", "NVIDIA L4");
  expect_no_cpu_in_the_plan_for("H200", "H200");
  expect_no_cpu_in_the_plan_for("rtx 4090", "RTX 4090");
}

}  // namespace
