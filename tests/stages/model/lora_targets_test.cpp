#include "stages/model/lora_targets.h"

#include <gmock/gmock.h>

#include "runner/shared/stage/stage.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Two blocks with the names of timm, or of another library if `first` is given.
std::vector<TargetCandidate> two_blocks(const std::string& first = "encoder.layers.") {
  std::vector<TargetCandidate> candidates = {{"embeddings.patch_embedding", true}};
  for (const char* number : {"0", "1"}) {
    for (const char* layer : {"self_attn.q_proj", "self_attn.out_proj", "mlp.fc1"})
      candidates.push_back({first + number + "." + layer, true});
    candidates.push_back({first + number + ".layer_norm1", false});
  }
  candidates.push_back({"head", true});
  return candidates;
}

std::vector<std::string> chosen(const LoraOptions& options,
                                const std::vector<TargetCandidate>& candidates) {
  std::vector<std::string> names;
  for (const LoraTarget& target : select_targets(options, candidates))
    names.push_back(candidates[target.index].name);
  return names;
}

LoraOptions targets(ModuleSelection selection) {
  LoraOptions options;
  options.targets = std::move(selection);
  return options;
}

using List = std::vector<std::string>;

TEST(LoraTargetsTest, ItemMatchesANameOrItsEndAfterADot) {
  EXPECT_THAT(chosen(targets(List{"q_proj", "head"}), two_blocks()),
              ElementsAre("encoder.layers.0.self_attn.q_proj", "encoder.layers.1.self_attn.q_proj",
                          "head"));
  EXPECT_THAT(chosen(targets(List{"1.mlp.fc1"}), two_blocks()),
              ElementsAre("encoder.layers.1.mlp.fc1"));
  EXPECT_THROW(chosen(targets(List{"_proj"}), two_blocks()), runner::StageError);
}

TEST(LoraTargetsTest, ExpressionMatchesTheWholeName) {
  EXPECT_THAT(
      chosen(targets(".*\\.layers\\.[02]\\.(self_attn\\.(q|k)_proj|mlp\\.fc1)"), two_blocks()),
      ElementsAre("encoder.layers.0.self_attn.q_proj", "encoder.layers.0.mlp.fc1"));
  EXPECT_THROW(chosen(targets("q_proj"), two_blocks()), runner::StageError);
}

TEST(LoraTargetsTest, ExcludedModulesGetNoAdapter) {
  LoraOptions options = targets(List{"q_proj", "fc1"});
  options.exclude = List{"layers.1.self_attn.q_proj"};
  EXPECT_THAT(chosen(options, two_blocks()),
              ElementsAre("encoder.layers.0.self_attn.q_proj", "encoder.layers.0.mlp.fc1",
                          "encoder.layers.1.mlp.fc1"));
  options.exclude = ".*fc1";
  EXPECT_THAT(chosen(options, two_blocks()), ElementsAre("encoder.layers.0.self_attn.q_proj",
                                                         "encoder.layers.1.self_attn.q_proj"));
}

TEST(LoraTargetsTest, FullySavedModuleGetsNoAdapter) {
  LoraOptions options = targets(List{"q_proj", "head", "fc1"});
  options.modules_to_save = {"head", "mlp"};
  EXPECT_THAT(chosen(options, two_blocks()), ElementsAre("encoder.layers.0.self_attn.q_proj",
                                                         "encoder.layers.1.self_attn.q_proj"));
}

TEST(LoraTargetsTest, LayersAreNumbersAfterThePattern) {
  LoraOptions options = targets(List{"q_proj"});
  options.layers = {1};
  EXPECT_THAT(chosen(options, two_blocks()), ElementsAre("encoder.layers.1.self_attn.q_proj"));
  options.layers_pattern = {"layers"};
  EXPECT_THAT(chosen(options, two_blocks()), ElementsAre("encoder.layers.1.self_attn.q_proj"));
  options.layers_pattern = {"layer", "h"};
  EXPECT_THROW(chosen(options, two_blocks()), runner::StageError);
}

TEST(LoraTargetsTest, LayerNumberInSecondPositionNeedsAPatternAsInPeft) {
  LoraOptions options = targets(List{"q_proj"});
  options.layers = {1};
  EXPECT_THROW(chosen(options, two_blocks("blocks.")), runner::StageError);
  options.layers_pattern = {"[^.]*"};
  EXPECT_THAT(chosen(options, two_blocks("blocks.")), ElementsAre("blocks.1.self_attn.q_proj"));
}

TEST(LoraTargetsTest, FirstPatternThatMatchesTheEndOfTheNameCounts) {
  LoraOptions options = targets(List{"q_proj", "fc1"});
  options.rank = 4;
  options.alpha = 8;
  options.rank_pattern = {{"layers.1.self_attn.q_proj", 2}, {"q_proj", 3}, {"c1", 9}};
  options.alpha_pattern = {{"^encoder.layers.0.mlp.fc1", 5}, {"fc1", 7}, {"^mlp.fc1", 1}};
  std::vector<std::pair<std::int64_t, double>> numbers;
  for (const LoraTarget& target : select_targets(options, two_blocks()))
    numbers.emplace_back(target.rank, target.alpha);
  EXPECT_THAT(numbers, ElementsAre(std::pair(3, 8.0), std::pair(4, 5.0), std::pair(2, 8.0),
                                   std::pair(4, 7.0)));
}

TEST(LoraTargetsTest, MissingMatchSuggestsTheNearestName) {
  EXPECT_REFUSED(chosen(targets(List{"q_prj"}), two_blocks()), kOptionConflict, "/targets",
                 "'q_prj'", "'q_proj'");
  EXPECT_REFUSED(chosen(targets(List{"query"}), two_blocks()), kOptionConflict, "/targets",
                 "'query'", "'patch_embedding', 'q_proj', 'out_proj', 'fc1', 'head'");
  EXPECT_REFUSED(chosen(targets("q_proj"), two_blocks()), kOptionConflict, "/targets", "'q_proj'",
                 "'embeddings.patch_embedding'");
}

TEST(LoraTargetsTest, NonLayerModulesAreRejectedByName) {
  EXPECT_REFUSED(chosen(targets(List{"layer_norm1"}), two_blocks()), kOptionConflict, "/targets",
                 "'encoder.layers.0.layer_norm1'", "'exclude'");
}

TEST(LoraTargetsTest, EmptySelectionIsReported) {
  LoraOptions options = targets(List{"q_proj"});
  options.layers = {7};
  EXPECT_REFUSED(chosen(options, two_blocks()), kOptionConflict, "/targets", "2 layers",
                 "'exclude', 'layers' and 'modules_to_save'");
}

TEST(LoraTargetsTest, ItemsWithoutAMatchAreListed) {
  EXPECT_THAT(unused_targets(targets(List{"query", "q_proj", "qkv"}), two_blocks()),
              ElementsAre("query", "qkv"));
  EXPECT_THAT(unused_targets(targets(".*q_proj"), two_blocks()), IsEmpty());
}

TEST(LoraTargetsTest, PatternsWithoutAMatchAreListed) {
  LoraOptions options = targets(List{"q_proj"});
  options.rank_pattern = {{"fc1", 2}, {"1.self_attn.q_proj", 3}};
  options.alpha_pattern = {{"q_prj", 5}};
  EXPECT_THAT(unused_patterns(options, two_blocks(), select_targets(options, two_blocks())),
              ElementsAre("fc1", "q_prj"));
}

}  // namespace
}  // namespace stages
