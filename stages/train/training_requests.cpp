#include "stages/train/training_requests.h"

#include <exception>

#include "runner/shared/stage/stage.h"

namespace stages {

void TrainingRequests::handle(const TrainingPosition& done) {
  if (context_.canceled()) stop(done);
  if (context_.take_save_request() || checkpoints_.is_due(done)) checkpoints_.save(done);
}

void TrainingRequests::handle_of_all(const TrainingPosition& done) {
  using Request = TrainingRanks::Request;
  const bool saves = context_.take_save_request() || checkpoints_.is_due(done);
  const Request own = context_.canceled() ? Request::kStop
                      : saves             ? Request::kSave
                                          : Request::kNothing;
  const Request agreed = ranks_.agreed(own);
  if (agreed == Request::kSave) checkpoints_.save(done);
  if (agreed != Request::kStop) return;
  if (own == Request::kStop) stop(done);
  if (done.steps > 0) checkpoints_.save(done);
  ranks_.end_after_others();
}

void TrainingRequests::stop(const TrainingPosition& done) {
  if (done.steps > 0) checkpoints_.save(done);
  throw runner::Canceled{};
}

void TrainingRequests::save_after_failure(const TrainingPosition& done,
                                          const std::string& before_what) {
  if (are_of_all()) {
    context_.say("nothing is saved after " + before_what +
                 ", since the optimizer state is sharded across the ranks: the run continues "
                 "from its last checkpoint");
    return;
  }
  try {
    checkpoints_.save(done);
    context_.say("saved after step " + std::to_string(done.steps) + ", the last step before " +
                 before_what);
  } catch (const std::exception& error) {
    context_.say("cannot save after step " + std::to_string(done.steps) + ": " + error.what());
  }
}

}  // namespace stages
