#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/few_shot/episode_model.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_cross_transformer(
    runner::ConfigReader& reader) {
  CrossHeadOptions head;
  head.attention = runner::choice<PairAttention>(reader, "attention", kPairAttentions);
  reader.read("width", head.width);
  return episode_model_stage(reader, {.pointer = {}, .backbone = {}, .head = std::move(head)});
}

}  // namespace

extern const runner::StageKind kModelCrossTransformer = {"model.cross_transformer",
                                                         create_cross_transformer};

}  // namespace stages
