// The rules about training options that depend on each other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/broken_rules_fixture.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using TrainingRules = BrokenRules;

TEST_F(TrainingRules, ScheduleMustFitTheOptimizer) {
  const std::string above = " 0.01 is above the optimizer's learning_rate 0.001";
  for (const std::string kind :
       {R"("cosine")", R"("cosine_restarts", "first_period": 5)", R"("plateau")"}) {
    EXPECT_THAT(of_training(R"("schedule": {"min_learning_rate": 0.01, "kind": )" + kind + "}"),
                ElementsAre("/train/schedule/min_learning_rate: min_learning_rate" + above));
  }
  EXPECT_THAT(
      of_training(R"("schedule": {"kind": "one_cycle"}, "optimizer": {"kind": "sgd"})"),
      ElementsAre(
          "/train/schedule/cycle_momentum: cycle_momentum needs an optimizer with momentum"));
  EXPECT_THAT(
      of_training(
          R"("schedule": {"kind": "one_cycle"}, "optimizer": {"kind": "sgd", "momentum": 0.9})"),
      IsEmpty());
  EXPECT_THAT(of_training(R"("schedule": {"kind": "one_cycle"}, "optimizer": {"kind": "adam"})"),
              IsEmpty());
  EXPECT_THAT(
      of_training(
          R"("schedule": {"kind": "one_cycle", "three_phase": true, "pct_start": 0.6, "base_momentum": 0.96})"),
      ElementsAre("/train/schedule/pct_start: pct_start 0.6 is above 0.5, but with "
                  "three_phase the rise and the fall each take that fraction",
                  "/train/schedule/base_momentum: base_momentum 0.96 is above max_momentum 0.95"));
}

TEST_F(TrainingRules, WarmUpMustBeSetExactlyOnce) {
  for (const std::string kind : {"warmup_cosine", "warmup_linear"}) {
    const std::string begin = R"("schedule": {"kind": ")" + kind + '"';
    EXPECT_THAT(of_training(begin + R"(, "warmup_steps": 5, "warmup_fraction": 0.1})"),
                ElementsAre("/train/schedule/warmup_steps: warmup_steps and warmup_fraction both "
                            "set the length of the warm-up"));
    EXPECT_THAT(
        of_training(begin + "}"),
        ElementsAre(
            "/train/schedule/warmup_steps: neither warmup_steps nor warmup_fraction is set"));
  }
}

TEST_F(TrainingRules, NesterovAndDampeningNeedMomentum) {
  EXPECT_THAT(
      of_training(R"("optimizer": {"kind": "sgd", "nesterov": true, "dampening": 0.5})"),
      ElementsAre("/train/optimizer/nesterov: nesterov needs a momentum above 0 and no dampening",
                  "/train/optimizer/dampening: dampening has no effect without momentum"));
}

TEST_F(TrainingRules, ParameterGroupsMustNotContradict) {
  EXPECT_THAT(
      of_training(
          R"("parameter_groups": [{"match": "a", "learning_rate": 0.2, "learning_rate_factor": 0.1},
                             {"match": "b", "frozen": true, "weight_decay": 0}, {"match": "c"}])"),
      ElementsAre("/train/parameter_groups/0/learning_rate_factor: learning_rate and "
                  "learning_rate_factor both set the group's learning rate",
                  "/train/parameter_groups/1/frozen: a frozen group has no learning rate and no "
                  "weight decay",
                  "/train/parameter_groups/2/match: the group changes nothing for its parameters"));
  const std::string low = ": the group's learning rate is below the schedule's min_learning_rate";
  EXPECT_THAT(
      of_training(
          R"("schedule": {"kind": "cosine", "min_learning_rate": 0.0005}, "parameter_groups": [
                             {"match": "a", "learning_rate_factor": 0.1}, {"match": "b", "learning_rate": 0.0004}])"),
      ElementsAre("/train/parameter_groups/0/learning_rate_factor" + low,
                  "/train/parameter_groups/1/learning_rate" + low));
  EXPECT_THAT(of_training(R"("learning_rate_factors": {"backbone": 0.1},
                             "parameter_groups": [{"match": "head", "frozen": true}])"),
              ElementsAre("/train/learning_rate_factors: learning_rate_factors and "
                          "parameter_groups both set learning rates of parts of the model"));
  EXPECT_THAT(of_training(R"("schedule": {"kind": "cosine", "min_learning_rate": 0.0005},
                             "learning_rate_factors": {"head": 2, "backbone": 0.1})"),
              ElementsAre("/train/learning_rate_factors/backbone: the backbone's learning rate is "
                          "below the schedule's min_learning_rate"));
}

TEST_F(TrainingRules, PatienceAndPlateauNeedValidation) {
  EXPECT_THAT(
      broken("train.supervised", R"({"patience": 3, "schedule": {"kind": "plateau"}})", false),
      ElementsAre("/train/patience: patience needs validation data, but nothing is wired to the "
                  "input 'validation'",
                  "/train/schedule/kind: the schedule plateau needs validation data, but nothing "
                  "is wired to the input 'validation'"));
  for (const char* kind : {"train.supervised", "train.contrastive"}) {
    EXPECT_THAT(broken(kind, R"({"patience": 3, "keep": "best"})", false),
                ElementsAre("/train/patience: patience needs validation data, but nothing is wired "
                            "to the input 'validation'",
                            "/train/keep: keep: best needs validation data, but nothing is wired "
                            "to the input 'validation'"))
        << kind;
    EXPECT_THAT(broken(kind, R"({"keep": "auto"})", false), IsEmpty()) << kind;
  }
  EXPECT_THAT(of_training(R"("patience": 3, "keep": "best", "schedule": {"kind": "plateau"})"),
              IsEmpty());
}

TEST_F(TrainingRules, LayerDecayNeedsAScheduleWithoutAMinimum) {
  EXPECT_THAT(of_training(R"("layer_decay": 0.75, "schedule": {"kind": "cosine"})"), IsEmpty());
  EXPECT_THAT(of_training(R"("layer_decay": 0.75, "schedule": {"kind": "constant"})"), IsEmpty());
  EXPECT_THAT(
      of_training(
          R"("layer_decay": 0.75, "schedule": {"kind": "cosine", "min_learning_rate": 1e-6})"),
      ElementsAre("/train/layer_decay: layer_decay gives each layer its own learning rate, "
                  "but the schedule's min_learning_rate is the same for all"));
}

TEST_F(TrainingRules, SwaMustBeTheOnlyAverageAndAverageSomeEpochs) {
  EXPECT_THAT(of_training(R"("swa": {})"), IsEmpty());
  EXPECT_THAT(of_training(R"("epochs": 4, "swa": {"start": 3})"), IsEmpty());
  EXPECT_THAT(of_training(R"("epochs": 4, "swa": {"start": 4})"),
              ElementsAre("/train/swa/start: swa.start is 4, but training has only 4 epochs, so no "
                          "weights would be averaged"));
  EXPECT_THAT(of_training(R"("swa": {}, "ema": {})"),
              ElementsAre("/train/swa: ema and swa both average the weights, and only one average "
                          "can be the result"));
  EXPECT_THAT(of_training(R"("swa": {}, "patience": 3)"),
              ElementsAre("/train/swa: patience may stop training before the weights of its "
                          "last epochs are averaged"));
}

TEST_F(TrainingRules, GradientsCanHaveOnlyOneLimit) {
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

TEST_F(TrainingRules, GroupMustBeUnfrozenBeforeTrainingEnds) {
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

TEST_F(TrainingRules, OnlySomeOptimizersHave8BitState) {
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

TEST_F(TrainingRules, AdafactorHasNoMomentumToCycle) {
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
