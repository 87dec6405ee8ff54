// The rules between the options of a training for gradients, groups and optimizers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runner/parent/cli/prepare.h"
#include "runner/parent/compile/compile.h"
#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// "pointer: message" of each rule that a supervised training with these options breaks.
std::vector<std::string> of_training(const std::string& options) {
  static const auto schemas = SchemaSet::load(embedded_schemas());
  Value value =
      from_json(nlohmann::ordered_json::parse(R"({"kind": "train.supervised", )" + options + "}"));
  EXPECT_THAT(schemas->validate(value, schemas->kind("train.supervised")->file), IsEmpty());
  Graph graph;
  graph.nodes.emplace_back();
  graph.nodes[0].kind = "train.supervised";
  graph.nodes[0].options = std::move(value);
  graph.nodes[0].pointer = "/train";
  std::vector<std::string> lines;
  for (const Diagnostic& error : broken_rules(graph, *schemas))
    lines.push_back(error.pointer + ": " + error.message);
  return lines;
}

TEST(TrainingRules, GradientsHaveOneLimit) {
  EXPECT_THAT(of_training(R"("gradient_clip_value": 0.5)"), IsEmpty());
  EXPECT_THAT(of_training(R"("adaptive_gradient_clip": {})"), IsEmpty());
  EXPECT_THAT(of_training(R"("gradient_clip_norm": 1, "gradient_clip_value": 0.5)"),
              ElementsAre("/train/gradient_clip_value: gradient_clip_norm and gradient_clip_value "
                          "both limit the gradients"));
  EXPECT_THAT(of_training(R"("gradient_clip_norm": 1, "adaptive_gradient_clip": {})"),
              ElementsAre("/train/adaptive_gradient_clip: gradient_clip_norm and "
                          "adaptive_gradient_clip both limit the gradients"));
  EXPECT_THAT(of_training(R"("gradient_clip_value": 1, "adaptive_gradient_clip": {})"),
              ElementsAre("/train/adaptive_gradient_clip: gradient_clip_value and "
                          "adaptive_gradient_clip both limit the gradients"));
}

TEST(TrainingRules, GroupIsUnfrozenWithinTheTraining) {
  const auto groups = [](const std::string& group) {
    return of_training(R"("epochs": 3, "parameter_groups": [{"match": "head", )" + group + "}]");
  };
  EXPECT_THAT(groups(R"("freeze_until": {"epoch": 3})"), IsEmpty());
  EXPECT_THAT(groups(R"("freeze_until": {"epoch": 4})"),
              ElementsAre("/train/parameter_groups/0/freeze_until: training has 3 epochs, so "
                          "it ends before epoch 4, which would train the group"));
  EXPECT_THAT(groups(R"("frozen": true, "freeze_until": {"epoch": 2})"),
              ElementsAre("/train/parameter_groups/0/freeze_until: a frozen group is never "
                          "trained, so freeze_until has no effect"));
}

TEST(TrainingRules, OnlySomeOptimizersHave8BitState) {
  const auto with = [](const std::string& optimizer) {
    return of_training(R"("optimizer": {"state_bits": 8, )" + optimizer + "}");
  };
  for (const char* const kind : {"adam", "adamw", "lion", "lamb"})
    EXPECT_THAT(with(R"("kind": ")" + std::string(kind) + '"'), IsEmpty()) << kind;
  EXPECT_THAT(with(R"("kind": "sgd", "momentum": 0.9)"), IsEmpty());
  EXPECT_THAT(with(R"("kind": "sgd")"),
              ElementsAre("/train/optimizer/state_bits: SGD without momentum has no state, so "
                          "state_bits: 8 has no effect"));
  EXPECT_THAT(with(R"("kind": "adamw", "amsgrad": true)"),
              ElementsAre("/train/optimizer/state_bits: the largest second moments of amsgrad "
                          "cannot be kept in 8 bits"));
  EXPECT_THAT(with(R"("kind": "adafactor")"),
              ElementsAre("/train/optimizer/state_bits: Adafactor has no 8-bit state: it keeps "
                          "only rows and columns of the second moment"));
  EXPECT_THAT(with(R"("kind": "muon")"),
              ElementsAre("/train/optimizer/state_bits: Muon has no 8-bit state"));
}

TEST(TrainingRules, AdafactorHasNoMomentumToCycle) {
  const auto with = [](const std::string& cycle) {
    return of_training(R"("optimizer": {"kind": "adafactor"}, "schedule": )"
                       R"({"kind": "one_cycle", "cycle_momentum": )" +
                       cycle + "}");
  };
  EXPECT_THAT(with("false"), IsEmpty());
  EXPECT_THAT(with("true"),
              ElementsAre("/train/schedule/cycle_momentum: cycle_momentum needs an optimizer with "
                          "momentum, but adafactor has none"));
}

}  // namespace
}  // namespace runner
