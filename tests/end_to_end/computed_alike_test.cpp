// End-to-end tests that the metrics of a run and the weights that it keeps depend only on its
// recipe, not on micro-batches, passes or threads. Runs every kind of training and evaluation in
// every way that promises the same result.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace {

using nlohmann::json;

struct Way {
  std::string name, overrides;
  bool keeps_bits = false;
};

struct Training {
  std::string name, made, command;
  std::vector<Way> ways;
};

void PrintTo(const Training& training, std::ostream* out) { *out << training.name; }

/// Two sums of the same n float32 values in different orders differ by at most n units in the last
/// place of the sum of their magnitudes. The values here went through at most kSteps steps, each
/// with kProducts products of kLength terms, forward and backward.
constexpr double kSteps = 15, kProducts = 40, kLength = 64;
constexpr double kRounding =
    kSteps * 2 * kProducts * kLength * std::numeric_limits<float>::epsilon() / 2;

constexpr const char* kKeptEpoch = "the epoch that is kept";

constexpr const char* kPhotos =
    "data make image_folder --out photos --classes 5 --per-class 12 --size 16 --seed 5 -q";
constexpr const char* kThreeClasses =
    "data make image_folder --out photos --classes 3 --per-class 16 --size 16 --seed 5 -q";
constexpr const char* kEpisodes =
    "data make mini_imagenet --out mini --classes 12 --per-class 6 --size 32 --seed 5 -q";

constexpr const char* kSplit =
    "'data.split={train: 0.5, validation: 0.25, test: 0.25, seed: 1}' data.root=photos ";
constexpr const char* kSgd = "'train.optimizer={kind: sgd, learning_rate: 0.05}' ";
constexpr const char* kTinyTower =
    "data.image_size=16 model.patch_size=8 model.num_hidden_layers=1 model.hidden_size=16 "
    "model.intermediate_size=32 model.num_attention_heads=2 ";
constexpr const char* kTinyClip =
    "data.image_size=16 model.projection_dim=8 'model.image={hidden_size: 16, intermediate_size: "
    "32, num_hidden_layers: 1, "
    "num_attention_heads: 2, patch_size: 8}' 'model.text={hidden_size: 16, intermediate_size: 32, "
    "num_hidden_layers: 1, "
    "num_attention_heads: 2}' ";

const Way kRecomputed{"recomputed", "memory.activation_checkpointing=block", /*keeps_bits=*/true};
const Way kThreads{"threads", "data.loader.workers=3", /*keeps_bits=*/true};

Training contrastive(const std::string& name, const std::string& options, std::vector<Way> ways) {
  ways.insert(ways.end(), {{"captions_one_by_one", "train.encode_captions_once=false"},
                           {"captions_padded", "train.trim_captions=false"},
                           {"evaluated_in_parts",
                            "evaluate.batch_size=4 retrieval.batch_size=3 retrieval.tile=4"},
                           kRecomputed,
                           kThreads});
  return {name, kPhotos,
          std::string(
              "run clip_flowers train.epochs=3 train.keep=best train.schedule.cycle_momentum=false "
              "evaluate.within_class=true ") +
              kSplit + kTinyClip + kSgd + options,
          std::move(ways)};
}

std::vector<Training> trainings() {
  const Way two_passes{"two_passes", "memory.micro_batch=3 memory.two_pass=on"};
  std::vector<Training> all = {
      {"supervised",
       kPhotos,
       std::string("run classify epochs=3 train.batch_size=8 train.schedule.kind=constant ") +
           kSplit + kTinyTower + kSgd,
       {{"parts", "memory.micro_batch=3"},
        two_passes,
        {"evaluated_in_parts", "evaluate.batch_size=4"},
        kRecomputed,
        kThreads}},
      {"grades",
       kPhotos,
       std::string(
           "run grades.yaml train.epochs=3 train.batch_size=8 train.schedule.kind=constant ") +
           kSplit + kTinyTower + kSgd,
       {{"parts", "memory.micro_batch=3"},
        {"evaluated_in_parts", "evaluate.batch_size=4"},
        kRecomputed,
        kThreads}},
      {"pairs",
       kThreeClasses,
       std::string("run pairs.yaml ") + kSplit + kTinyTower + kSgd,
       {{"parts", "memory.micro_batch=3"},
        {"evaluated_in_parts", "evaluate.batch_size=4"},
        kRecomputed,
        kThreads}},
      {"episodes",
       kEpisodes,
       std::string(
           "run fsct backbone=Conv4 data.root=mini data.image_size=32 data.loader.workers=0 "
           "n_way=3 k_shot=2 n_query=3 train.episodes=4 train.validation_episodes=3 num_epoch=3 "
           "test_iter=12 "
           "train.episodes_per_step=2 lambda_V=0.5 lambda_C=0.1 ") +
           kSgd,
       {{"parts", "memory.micro_batch=1"},
        {"by_samples", "memory.loss_form=gram"},
        kRecomputed,
        kThreads}}};
  for (const char* monitor : {"recall_at_1", "zero_shot_accuracy", "loss"}) {
    for (const char* targets : {"diagonal", "same_caption"}) {
      if (std::string_view(monitor) != "loss" && std::string_view(targets) == "diagonal") continue;
      all.push_back(contrastive(std::string("captions_by_") + monitor + "_" + targets,
                                std::string("train.batch_size=8 train.monitor=") + monitor +
                                    " train.loss.targets=" + targets,
                                {two_passes}));
    }
  }
  all.push_back(contrastive(
      "captions_within_micro_batches",
      "train.batch_size=4 train.gradient_accumulation_steps=2 train.monitor=recall_at_1 "
      "'train.loss={targets: same_caption, negatives: micro_batch}'",
      {{"two_passes", "memory.two_pass=on"}}));
  return all;
}

class EquivalentRuns : public testing::TestWithParam<Training> {
 protected:
  void SetUp() override {
    const Ended made = retort(GetParam().made, folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write(
        "grades.yaml",
        "schema: 1\n"
        "defaults: [{data: image_folder}, {model: tiny}, {memory: auto}, {train: from_scratch}, "
        "{evaluate: grading}, _self_]\n"
        "evaluate: {bootstrap: 20}\n");
    folder_.write(
        "pairs.yaml",
        "schema: 1\n"
        "defaults: [{data: image_folder}, {model: tiny}, {memory: auto}, {train: one_vs_one}, "
        "{evaluate: pairwise_ensemble}, _self_]\n"
        "train: {epochs: 3, batch_size: 8, patience: null, stop_at_accuracy: null, "
        "foreach: {pair: [[0, 1], [0, 2], [1, 2]]}}\n"
        "evaluate: {bootstrap: 20}\n");
  }

  /// What a run measured, by node, name and step, except time and memory; and the epoch of the
  /// evaluated weights.
  using Measured = std::map<std::tuple<std::string, std::string, std::int64_t>, double>;
  Measured run(const std::string& name, const std::string& overrides) {
    const Ended ended = retort(
        GetParam().command + ' ' + overrides + " -q --no-reuse run.dir=" + name, folder_.path());
    EXPECT_EQ(ended.exit, 0) << name << ": " << ended.err;
    Measured measured;
    if (ended.exit != 0) return measured;
    std::istringstream lines(file_text(folder_ / (name + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const json one = json::parse(line);
      const std::string metric = one.at("name");
      if (metric.starts_with("memory/") || metric.find("second") != metric.npos) continue;
      measured[{one.at("node"), metric, one.at("step")}] =
          one.at("value").is_number() ? one.at("value").get<double>()
                                      : std::numeric_limits<double>::quiet_NaN();
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / (name + "/nodes"))) {
      const json metrics = json::parse(file_text(entry.path() / "metrics.json"), nullptr, false);
      if (metrics.is_object() && metrics.contains("epoch"))
        measured[{entry.path().filename(), kKeptEpoch, 0}] = metrics.at("epoch").get<double>();
    }
    return measured;
  }

  /// Unless a way keeps every bit, predicted classes may differ too: they change abruptly where two
  /// scores are almost equal. Metrics of predicted classes are compared only if nothing else was
  /// measured.
  static bool is_steady(const std::string& metric) {
    for (const char* const part :
         {"loss", "classification", "variance", "learning_rate", "trained_parameters", "chance"}) {
      if (metric.find(part) != std::string::npos) return true;
    }
    return false;
  }

  static void expect_alike(const Measured& plain, const Measured& other, const Way& way) {
    // Different predicted classes may select another epoch, which is then evaluated.
    std::set<std::string> training, with_steady, compared;
    bool is_same_epoch = true;
    for (const auto& [key, value] : plain) {
      if (is_steady(std::get<1>(key))) with_steady.insert(std::get<0>(key));
      if (std::get<1>(key) != kKeptEpoch) continue;
      training.insert(std::get<0>(key));
      is_same_epoch &= other.contains(key) && other.at(key) == value;
    }
    const auto is_compared = [&](const std::string& node) {
      return way.keeps_bits || is_same_epoch || training.contains(node);
    };
    for (const auto& [key, value] : plain) {
      const auto& [node, metric, step] = key;
      const auto found = other.find(key);
      ASSERT_NE(found, other.end())
          << way.name << ": no " << metric << " of " << node << " at " << step;
      if (!is_compared(node)) continue;
      if (!way.keeps_bits && with_steady.contains(node) && !is_steady(metric)) continue;
      compared.insert(node);
      const double most = way.keeps_bits ? 0 : kRounding * std::max(1.0, std::abs(value));
      EXPECT_LE(std::abs(found->second - value), most)
          << way.name << ": " << metric << " of " << node << " at step " << step << " is "
          << found->second << " instead of " << value;
    }
    for (const auto& [key, value] : plain) {
      const std::string& node = std::get<0>(key);
      EXPECT_EQ(compared.contains(node), is_compared(node)) << way.name << ": " << node;
    }
    EXPECT_EQ(plain.size(), other.size()) << way.name;
  }

  TemporaryFolder folder_;
};

TEST_P(EquivalentRuns, MetricsAndKeptWeightsDependOnlyOnTheRecipe) {
  const Measured plain = run("plain", "data.loader.workers=0");
  if (HasFailure()) return;
  ASSERT_FALSE(plain.empty());
  for (const Way& way : GetParam().ways) {
    expect_alike(plain, run(way.name, "data.loader.workers=0 " + way.overrides), way);
    std::filesystem::remove_all(folder_ / way.name);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EquivalentRuns, testing::ValuesIn(trainings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
