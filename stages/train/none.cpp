#include <optional>

#include <torch/nn/module.h>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/train/earlier_weights.h"
#include "stages/train/single_checkpoint.h"

namespace stages {
namespace {

/// Saves the weights that the model starts with, for evaluating the starting point of training.
class UntrainedStage final : public runner::Stage {
 public:
  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    const auto trained = find_earlier_weights(options_of_single(), context);
    const std::shared_ptr<Checkpoint> checkpoint = single_checkpoint(inputs, trained);
    checkpoint->network = checkpoint->model->outline(data_of(inputs, trained));
    return runner::Outputs{{"checkpoint", checkpoint}};
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const auto trained = find_earlier_weights(options_of_single(), context);
    const std::shared_ptr<Checkpoint> checkpoint = single_checkpoint(inputs, trained);
    if (context.node().ranks.rank > 0) {  // only rank 0 saves and evaluates
      checkpoint->network = checkpoint->model->outline(data_of(inputs, trained));
    } else if (trained) {
      reuse_single(*trained, *checkpoint, context);
    } else {
      begin_single(context);
      const DatasetDescription data = data_of(inputs, trained);
      checkpoint->network = checkpoint->model->build(data, context.node().seed);
      for (const std::string& line : checkpoint->model->notes(*checkpoint->network))
        context.say(line);
      context.say("nothing is trained");
      save_single(*checkpoint, data, context);
      checkpoint->network->to(at::Device(context.node().device));
    }
    checkpoint->network->eval();
    return {{"checkpoint", checkpoint}};
  }

 private:
  static DatasetDescription data_of(const runner::Inputs& inputs,
                                    const std::optional<EarlierWeights>& trained) {
    return trained ? trained->data : source_of(inputs.get<Dataset>("train")->describe());
  }
};

runner::Result<std::unique_ptr<runner::Stage>> create_untrained(runner::ConfigReader& reader) {
  if (auto errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(std::make_unique<UntrainedStage>());
}

}  // namespace

extern const runner::StageKind kTrainNone = {.name = "train.none", .create = create_untrained};

}  // namespace stages
