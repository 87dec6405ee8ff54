#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/few_shot/episode_model.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_few_shot_transformer(runner::ConfigReader& reader) {
  FewShotHeadOptions head;
  head.learned_prototypes = runner::choice<bool>(reader, "prototype", {{"learned", true}, {"mean", false}});
  head.attention = runner::choice<PairAttention>(reader, "attention", kPairAttentions);
  reader.read("depth", head.depth);
  reader.read("heads", head.heads);
  reader.read("head_width", head.head_width);
  reader.read("mlp_width", head.mlp_width);
  runner::ConfigReader& score = reader.section("score");
  score.read("width", head.score.width);
  head.score.weight_normalized = runner::choice<bool>(score, "form", {{"weight_normalized", true}, {"linear", false}});
  head.score.norm = runner::choice<ScoreNorm>(score, "normalize_over", kScoreNorms);
  score.read("scale", head.score.scale);
  return episode_model_stage(reader, {.pointer = {}, .backbone = {}, .head = std::move(head)});
}

}  // namespace

extern const runner::StageKind kModelFewShotTransformer = {"model.few_shot_transformer", create_few_shot_transformer};

}  // namespace stages
