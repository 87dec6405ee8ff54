#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/stages.h"
#include "tests/support/planning_context.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_of.h"
#include "tests/support/tiny_dataset.h"

namespace stages {

/// The stage with these options, run on TinyDatasets.
struct SupervisedRun {
  std::shared_ptr<TinyDataset> train = std::make_shared<TinyDataset>(30),
                               validation = std::make_shared<TinyDataset>(12);
  std::shared_ptr<TinyModel> model = std::make_shared<TinyModel>();
  std::shared_ptr<MemoryPolicy> policy = std::make_shared<MemoryPolicy>();
  std::shared_ptr<Model> greedy;    // replaces `model`
  std::shared_ptr<Dataset> images;  // replaces `train`
  std::string model_stage = "model";
  RecordingContext context;

  std::unique_ptr<runner::Stage> stage(const std::string& options) const {
    return stage_of(kTrainSupervised, options);
  }
  runner::Inputs inputs() const {
    runner::Inputs::ByPort inputs = {{"model", {greedy ? greedy : std::shared_ptr<Model>(model)}},
                                     {"memory", {policy}}};
    if (images) inputs["train"] = {images};
    else if (train) inputs["train"] = {train};
    if (validation) inputs["validation"] = {validation};
    return runner::Inputs(inputs, {{"model", model_stage}});
  }
  std::shared_ptr<const Checkpoint> run(const std::string& options) {
    const runner::Outputs outputs = stage(options)->run(inputs(), context);
    return runner::Inputs({{"checkpoint", {outputs.at("checkpoint")}}})
        .get<Checkpoint>("checkpoint");
  }
  /// Returns the stage's plan for a budget of `budget` bytes.
  runner::MemoryPlan plan(const std::string& options, std::int64_t budget) const {
    PlanningContext planning;
    planning.asked.budget = {"a test", budget};
    stage(options)->plan(inputs(), planning);
    return planning.planned.value();
  }
  /// Plans and then runs, as in a real run.
  void run_planned(const std::string& options) {
    PlanningContext planning;
    const auto both = stage(options);
    both->plan(inputs(), planning);
    both->run(inputs(), context);
  }
};

}  // namespace stages
