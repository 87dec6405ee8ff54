// End-to-end tests of two training nodes in one run: each gives the same result as on its own.

#include <filesystem>
#include <map>
#include <ostream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* kTower =
    " +model/backbone=tiny model.backbone.hidden_size=16 model.backbone.intermediate_size=32 "
    "model.backbone.num_hidden_layers=1 model.backbone.num_attention_heads=2 ";

constexpr const char* kTargets = "'model.targets=[q_proj,v_proj]' ";

/// A model given by overrides, which may refer to `base`, a folder of weights.
struct TrainedTwice {
  std::string name, overrides;
};

void PrintTo(const TrainedTwice& twice, std::ostream* out) { *out << twice.name; }

class Foreach : public testing::TestWithParam<TrainedTwice> {
 protected:
  void SetUp() override {
    const Ended made =
        retort("data make image_folder --out photos --classes 3 --per-class 8 --size 32 -q",
               folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
    folder_.write(
        "r.yaml",
        "schema: 1\n"
        "defaults: [{data: image_folder}, {model: lora}, {memory: as_written}, {train: "
        "from_scratch}, _self_]\n"
        "data: {root: photos, image_size: 28, split: {train: 0.5, validation: 0.25, test: 0.25}}\n"
        "train: {foreach: {rate: [0.05, 1.0e-30]}, epochs: 2, batch_size: 4, optimizer: {kind: "
        "adamw, learning_rate: '${item.rate}'}, schedule: {kind: constant}}\n"
        "evaluate: {kind: evaluate.classification}\n");
    if (GetParam().overrides.find("=base") == std::string::npos) return;
    const std::string one = "train.foreach.rate=[0.05] run.dir=donor";
    ASSERT_EQ(run(kTower + std::string(kTargets) + one).exit, 0);
    const Ended exported = retort("export donor --merged --out base", folder_.path());
    ASSERT_EQ(exported.exit, 0) << exported.err;
  }
  Ended run(const std::string& overrides) const {
    return retort("run r.yaml --no-reuse -q " + overrides, folder_.path());
  }
  /// The output files of a node of `run` that contain no times.
  std::map<std::string, std::string> results(const std::string& run,
                                             const std::string& node) const {
    std::map<std::string, std::string> files;
    const fs::path folder = folder_ / (run + "/nodes/" + node);
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().filename();
      if (name == "model.safetensors" || name == "optimizer.safetensors" ||
          name == "predictions.csv" || name == "evaluation_results.json")
        files[fs::relative(entry.path(), folder)] = file_text(entry.path());
    }
    return files;
  }
  /// The metrics of `run` at a learning rate, by node, name and step.
  std::map<std::string, double> metrics(const std::string& run, const std::string& rate) const {
    std::map<std::string, double> values;
    std::istringstream lines(file_text(folder_ / (run + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const auto one = nlohmann::json::parse(line);
      const std::string node = one.at("node"), name = one.at("name");
      const bool is_time =
          name.find("second") != std::string::npos || name.find("memory") != std::string::npos;
      if (node.ends_with(rate) && !is_time)
        values[node + " " + name + " " + one.at("step").dump()] = one.at("value");
    }
    return values;
  }
  std::vector<std::string> nodes(const std::string& run, const std::string& family) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / (run + "/nodes"))) {
      const std::string name = entry.path().filename();
      if (name.starts_with(family + ".")) names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
  }
  TemporaryFolder folder_;
};

TEST_P(Foreach, EachTrainingRunIsIndependent) {
  const Ended both = run(GetParam().overrides + " run.dir=both");
  ASSERT_EQ(both.exit, 0) << both.err;
  ASSERT_EQ(nodes("both", "train").size(), 2U);
  for (const std::string rate : {"0.05", "1.0e-30"}) {
    const std::string alone = "alone-" + rate;
    const Ended ended =
        run(GetParam().overrides + " train.foreach.rate=[" + rate + "] run.dir=" + alone);
    ASSERT_EQ(ended.exit, 0) << ended.err;
    ASSERT_EQ(nodes(alone, "train").size(), 1U);
    for (const std::string family : {"train", "evaluate"}) {
      const std::string node = nodes(alone, family).at(0);
      EXPECT_GE(results(alone, node).size(), 2U) << node;
      EXPECT_TRUE(results(alone, node) == results("both", node)) << node;
      EXPECT_FALSE(metrics(alone, node).empty()) << node;
      EXPECT_EQ(metrics(alone, node), metrics("both", node));
    }
  }
  // Another process restores the trained weights for evaluation.
  const Ended evaluated = retort("evaluate both run.dir=again -q", folder_.path());
  ASSERT_EQ(evaluated.exit, 0) << evaluated.err;
  for (const std::string& node : nodes("both", "evaluate"))
    EXPECT_TRUE(results("again", node) == results("both", node)) << node;
}

const std::string kFromBase = std::string(kTower) + "model.backbone.weights=base ";

INSTANTIATE_TEST_SUITE_P(
    Of, Foreach,
    testing::Values(TrainedTwice{"clip_vision", "model=tiny model.patch_size=14"},
                    TrainedTwice{"linear_probe", "model=linear_probe " + kFromBase},
                    TrainedTwice{"lora", kTargets + kFromBase},
                    TrainedTwice{"lora_with_biases", "model.bias=all " + (kTargets + kFromBase)},
                    TrainedTwice{
                        "lora_with_a_saved_norm",
                        "'model.modules_to_save=[post_layernorm]' " + (kTargets + kFromBase)}),
    [](const auto& info) { return info.param.name; });

}  // namespace
