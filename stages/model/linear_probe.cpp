#include "runner/stage.h"
#include "stages/model/fine_tuned_stage.h"
#include "stages/stages.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
  return fine_tuned_stage(reader, {});
}

}  // namespace

const runner::StageKind kModelLinearProbe = {"model.linear_probe", create};

}  // namespace stages
