// End-to-end tests of every shipped recipe with several ranks: they compute what one process does.

#include <algorithm>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/shipped_recipes.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;

/// A recipe with options that change its training step, and the error expected with several ranks.
struct RankedRecipe {
  std::string recipe;
  std::string what;          ///< names the test
  std::string options = "";  ///< in shell syntax
  std::string refused = {};  ///< part of the error message; empty: the ranks are certified
};

void PrintTo(const RankedRecipe& one, std::ostream* out) {
  *out << one.recipe << ' ' << one.options;
}

const std::string kPartsAreNormalized =
    "gradient_accumulation_steps normalizes each part of a batch separately";

/// Every shipped recipe that trains must be here.
const std::vector<RankedRecipe> kRanked = {
    {"classify", "as_shipped"},
    {"classify", "micro_batches", "memory.micro_batch=2"},
    {"classify", "mixing", "train.mixup=0.4 train.cutmix=1"},
    {"classify", "mixing_micro_batches", "train.mixup=0.4 memory.micro_batch=2"},
    {"classify", "class_weights", "train.class_weights=balanced memory.micro_batch=2"},
    {"classify", "accumulation", "train.batch_size=3 train.gradient_accumulation_steps=3"},
    {"classify", "frozen_part",
     "'train.parameter_groups=[{match: [vision_model.encoder.layers.0], frozen: true}]'"},
    {"classify", "dropout", "model.dropout=0.2 model.attention_dropout=0.2 model.drop_path=0.2"},
    {"classify", "ema", "train.ema.decay=0.9 train.gradient_clip_norm=1"},
    {"classify", "recomputed", "memory.activation_checkpointing=block"},
    {"classify", "sharded_optimizer", "memory.shard=optimizer"},
    {"classify", "sharded_gradients", "memory.shard=gradients memory.micro_batch=2"},
    {"classify", "sharded_parameters",
     "memory.shard=parameters memory.activation_checkpointing=block memory.micro_batch=2"},
    {"classify", "batch_norm",
     "model=se_resnext50_32x4d model.weights=null 'model.layers=[1,1,1,1]'"},
    {"classify_external", "as_shipped"},
    {"quickstart", "as_shipped"},
    {"multi_label", "as_shipped"},
    {"multi_label", "focal_micro_batches", "train.loss.kind=focal memory.micro_batch=2"},
    {"regression", "as_shipped"},
    {"regression", "micro_batches", "train.loss.kind=huber memory.micro_batch=2"},
    {"finetune", "linear_probe"},
    {"finetune", "lora", "model=lora"},
    {"finetune", "lora_micro_batches",
     "model=lora train.gradient_accumulation_steps=1 memory.micro_batch=2"},
    {"finetune", "lora_sharded",
     "model=lora memory.shard=parameters "
     "memory.activation_checkpointing=block"},
    {"finetune", "dora", "model=lora model.dora=true"},
    {"finetune", "pissa", "model=lora model.rank=4 model.initialization=pissa"},
    {"finetune", "full", "model=full"},
    {"finetune_clip_full", "as_shipped"},
    {"finetune_lora_ranks", "as_shipped"},
    {"finetune_robust", "as_shipped"},
    {"finetune_vit_full", "as_shipped"},
    {"clip_cars", "as_shipped"},
    {"clip_cars", "two_pass", "memory.two_pass=on memory.micro_batch=2"},
    {"clip_cars", "sigmoid", "train.loss.function=sigmoid model.logit_bias=-10"},
    {"clip_cars", "sigmoid_two_pass",
     "train.loss.function=sigmoid model.logit_bias=-10 memory.two_pass=on memory.micro_batch=2"},
    {"clip_cars", "class_weights", "use_class_weights=true"},
    {"clip_cars", "without_class_head", "model.class_head=none train.monitor=recall_at_1"},
    {"clip_cars", "lora", "'model.adapters={rank: 2, alpha: 4}'"},
    {"clip_cars", "sharded_parameters",
     "memory.shard=parameters memory.activation_checkpointing=block memory.two_pass=on "
     "memory.micro_batch=2"},
    {"clip_cars_as_published", "as_shipped"},
    {"clip_cars_flyp", "as_shipped"},
    {"clip_cars_head_first", "as_shipped"},
    {"clip_cars_text_classifier", "as_shipped"},
    {"clip_flowers", "as_shipped"},
    {"fsct", "cosine"},
    {"fsct", "softmax", "method=FSCT_softmax"},
    {"fsct", "cross_transformer_cosine", "method=CTX_cosine"},
    {"fsct", "cross_transformer_softmax", "method=CTX_softmax"},
    {"fsct", "several_episodes", "train.episodes_per_step=4 memory.micro_batch=1"},
    {"fsct", "trained_backbone", "model.backbone.trainable=true train.episodes_per_step=3"},
    {"fsct_variance_covariance", "as_shipped"},
    {"diabetic_retinopathy", "one_vs_one"},
    {"diabetic_retinopathy", "several_architectures",
     "'base_models=[seresnext50_32x4d,densenet121]'"},
    {"diabetic_retinopathy", "multi_class", "method=multi_class"},
    {"diabetic_retinopathy_as_coded", "as_shipped", "", kPartsAreNormalized},
    {"diabetic_retinopathy_as_coded", "without_accumulation",
     "train.gradient_accumulation_steps=1 memory.recompute_batch_norm=once --only train.0-1"},
    {"diabetic_retinopathy_as_described", "as_shipped", "", kPartsAreNormalized},
    {"diabetic_retinopathy_as_described", "without_accumulation",
     "train.gradient_accumulation_steps=1 memory.recompute_batch_norm=once --only train.0-1"},
    {"diabetic_retinopathy_external", "as_shipped"},
    {"diabetic_retinopathy_ordinal", "as_shipped"},
    {"diabetic_retinopathy_published", "as_shipped", "", kPartsAreNormalized},
    {"diabetic_retinopathy_published", "without_accumulation",
     "train.gradient_accumulation_steps=1 memory.recompute_batch_norm=once --only train.0-1"},
    {"diabetic_retinopathy_timm", "as_shipped"},
    {"timm", "as_shipped"},
    {"torchvision", "as_shipped"},
    {"transformers", "as_shipped"},
};

/// Recipes that train nothing.
const std::vector<std::string> kEvaluatedOnly = {"clip_cars_zero_shot", "few_shot_prototypes"};

/// Rows that the ordinary tests compare, with two and three ranks.
const std::vector<std::string> kSampled = {"clip_cars_two_pass", "fsct_several_episodes"};

std::string name_of_row(const RankedRecipe& one) { return one.recipe + "_" + one.what; }

bool is_sampled(const RankedRecipe& one) {
  return std::ranges::find(kSampled, name_of_row(one)) != kSampled.end();
}

std::vector<RankedRecipe> sampled_rows() {
  std::vector<RankedRecipe> rows = kRanked;
  std::erase_if(rows, [](const RankedRecipe& one) { return !is_sampled(one); });
  return rows;
}

class MultiRankRecipe : public testing::TestWithParam<RankedRecipe> {
 protected:
  void SetUp() override {
    if (is_of_python(GetParam().recipe) && !torch_python()) GTEST_SKIP() << kNoTorchPython;
    make_small_data(GetParam().recipe, folder_.path());
  }

  void expect_certified(int ranks) const {
    const auto& [recipe, what, options, refused] = GetParam();
    std::string small = in_small_form(recipe);
    const std::string layers = "'model.layers=[1,1,1,1]'";  // only SE-ResNeXt has this option
    if (what == "several_architectures") small.erase(small.find(layers), layers.size());
    const Ended ended = retort(
        "certify " + small + " device=cpu " + options + " --json --ranks " + std::to_string(ranks),
        folder_.path());
    if (!refused.empty()) {
      EXPECT_EQ(ended.exit, 78) << ended.err;
      EXPECT_THAT(ended.out + ended.err, HasSubstr(refused));
      return;
    }
    EXPECT_TRUE(ended.exit == 0 || ended.exit == 1) << ended.exit << ended.err << ended.out;
    const json answer = json::parse(ended.out);
    ASSERT_TRUE(answer.contains("result")) << ended.out;
    EXPECT_FALSE(answer.at("result").at("certificates").empty());
    for (const json& one : answer.at("result").at("certificates")) {
      SCOPED_TRACE(one.at("node"));
      EXPECT_TRUE(one.at("holds")) << one.at("compared") << one.at("worst") << one.at("changed");
      EXPECT_FALSE(one.at("parameters").empty());
      EXPECT_LE(one.at("limit").get<double>(), 1e-9);
      if (ranks > 1)
        EXPECT_THAT(one.at("compared"), testing::StartsWith(std::to_string(ranks) + " ranks"));
    }
  }

  TemporaryFolder folder_;
};

TEST_P(MultiRankRecipe, HasTheGradientOfOneProcess) {
  for (const int ranks : {2, 3}) expect_certified(ranks);
}

using DeepMultiRankRecipe = MultiRankRecipe;

TEST_P(DeepMultiRankRecipe, HasTheGradientOfOneProcess) {
  for (const int ranks : {1, 2, 3, 4}) {
    if (ranks > 1 || GetParam().refused.empty()) expect_certified(ranks);
  }
}

std::string row_of(const testing::TestParamInfo<RankedRecipe>& info) {
  return name_of_row(info.param);
}

INSTANTIATE_TEST_SUITE_P(Sampled, MultiRankRecipe, testing::ValuesIn(sampled_rows()), row_of);
INSTANTIATE_TEST_SUITE_P(DeepShipped, DeepMultiRankRecipe, testing::ValuesIn(kRanked), row_of);

TEST(MultiRankRecipes, EveryShippedRecipeIsCompared) {
  std::set<std::string> compared(kEvaluatedOnly.begin(), kEvaluatedOnly.end());
  for (const RankedRecipe& one : kRanked) {
    if (one.refused.empty()) compared.insert(one.recipe);
  }
  const std::vector<std::string> shipped = shipped_recipes();
  EXPECT_EQ(compared, std::set<std::string>(shipped.begin(), shipped.end()))
      << "add a row for the recipe";
}

class DeepMultiRankEvaluation : public testing::TestWithParam<std::string> {};

TEST_P(DeepMultiRankEvaluation, GivesTheMetricsOfOneProcess) {
  const TemporaryFolder folder;
  make_small_data(GetParam(), folder.path());
  std::vector<std::string> one;
  for (const int ranks : {1, 2, 3, 4}) {
    const std::string name = "of-" + std::to_string(ranks);
    const Ended ended =
        retort("run " + in_small_form(GetParam()) + " device=cpu --no-reuse " +
                   "threads=1 run.dir=" + name + " --devices " + std::to_string(ranks),
               folder.path());
    ASSERT_EQ(ended.exit, 0) << ended.err;
    std::vector<std::string> measured;
    std::istringstream lines(file_text(folder / (name + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const json metric = json::parse(line);
      if (metric.at("name").get<std::string>().find("seconds") == std::string::npos)
        measured.push_back(metric.at("name").dump() + metric.at("value").dump());
    }
    EXPECT_FALSE(measured.empty());
    if (ranks == 1) one = measured;
    EXPECT_EQ(measured, one) << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(DeepShipped, DeepMultiRankEvaluation, testing::ValuesIn(kEvaluatedOnly),
                         [](const auto& info) { return info.param; });

}  // namespace
