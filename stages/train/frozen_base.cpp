#include "stages/train/frozen_base.h"

#include <string>

#include "runner/stage/stage.h"
#include "stages/checkpoint/training_state.h"
#include "stages/weights/weights.h"

namespace stages {

void check_base(const torch::nn::Module& network, const TrainingState& state) {
  const auto saved = state.about.find("base");
  const std::string then = saved == state.about.end() ? "" : saved->second, now = base_of(network);
  if (then == now) return;
  const auto in_words = [](const std::string& base) { return base.empty() ? "none" : "'" + base + "'"; };
  throw runner::StageError(runner::ErrorCode::kChangedRun, "the checkpoint was trained on other frozen weights: " +
                                                               in_words(then) + " then, " + in_words(now) + " now")
      .with_help("give the model the weights that it had, or train again");
}

}  // namespace stages
