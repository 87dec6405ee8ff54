// The memory that training CLIP ViT-B/32 in batches of 128 needs under 8 GiB, as published: with
// captions of 77 tokens and one caption per image.

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/shared_data.h"

namespace {

using nlohmann::json;

constexpr double kGibibyte = 1 << 30;

class ClipPlan : public testing::Test {
 protected:
  void SetUp() override { RETORT_NEEDS_SHARED(merges()); }
  static std::filesystem::path merges() {
    return shared_data("data/clip/bpe_simple_vocab_16e6.txt.gz");
  }
  static Ended planned(const std::string& more) {
    static const TemporaryFolder folder;
    if (!std::filesystem::exists(folder / "cars")) {
      const Ended made =
          retort("data make stanford_cars --out cars --classes 20 --per-class 20 --size 16 -q",
                 folder.path());
      if (made.exit != 0) ADD_FAILURE() << made.err;
    }
    return retort(
        "plan clip_cars data.root=cars data.validation=0 data.loader.workers=0 model.weights=null "
        "model.tokenizer.merges=" +
            merges().string() +
            " memory=as_written memory.budget=8GiB train.trim_captions=false "
            "train.encode_captions_once=false device=cpu " +
            more,
        folder.path());
  }
  static json training(const Ended& ended) {
    return json::parse(ended.out).at("result").at("plans").at(0);
  }
  static double needs(const json& plan) { return plan.at("needed").get<double>() / kGibibyte; }
};

TEST_F(ClipPlan, WholeBatchDoesNotFitAndEveryByteIsAttributed) {
  const Ended ended = planned("--json");
  EXPECT_EQ(ended.exit, 1);
  const json plan = training(ended);
  EXPECT_EQ(plan.at("fits"), false);
  EXPECT_NEAR(needs(plan), 8.9, 0.2);
  EXPECT_EQ(plan.at("peak").at("phase"), "backward");
  std::int64_t bytes = 0;
  for (const json& owner : plan.at("owners")) {
    bytes += owner.at("bytes").get<std::int64_t>();
    // 151,277,313 weights of the two towers and their projections, plus the class head.
    if (owner.at("name") == "parameter") EXPECT_EQ(owner.at("bytes"), 4 * (151'277'313 + 20 * 513));
  }
  EXPECT_EQ(bytes, plan.at("live"));
  for (const json& term : plan.at("terms")) bytes += term.at("bytes").get<std::int64_t>();
  EXPECT_EQ(bytes, plan.at("needed"));
}

TEST_F(ClipPlan, ActivationCheckpointingMakesTheWholeBatchFit) {
  const Ended ended = planned("memory.activation_checkpointing=block --json");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  const json plan = training(ended);
  EXPECT_EQ(plan.at("fits"), true);
  EXPECT_LT(needs(plan), 6);
  EXPECT_EQ(plan.at("step").at("micro_batch"), 0);
}

}  // namespace
