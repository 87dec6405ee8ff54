#include "runner/shared/stage/stage.h"
#include "stages/adapters/fine_tuned_stage.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_probe(runner::ConfigReader& reader) {
  return fine_tuned_stage(reader, {});
}

}  // namespace

extern const runner::StageKind kModelLinearProbe = {"model.linear_probe", create_probe};

}  // namespace stages
