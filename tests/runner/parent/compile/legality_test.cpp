#include "runner/parent/compile/legality.h"

#include "runner/parent/compile/compile.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/fake_schemas.h"
#include "tests/support/schema_texts.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string kind(const std::string& name, const std::string& keywords,
                 const std::string& options = "") {
  return R"({"title": ")" + name + R"(", "description": "A test's.", )" + keywords +
         R"(, "type": "object", "additionalProperties": false, "properties": {"kind": {"const": ")" +
         name.substr(name.find('/') == name.npos ? 0 : name.rfind('/') + 1) + "\"}" +
         (options.empty() ? "" : ", " + options) + "}}";
}

std::string train(const std::string& name, const std::string& coupling,
                  const std::string& options = "") {
  return kind(
      name,
      R"("x-version": 1, "x-inputs": {"model": "model", "memory": "memory_policy"}, "x-outputs": {"checkpoint": "checkpoint"})" +
          (coupling.empty() ? "" : R"(, "x-coupling": )" + coupling),
      R"("batch_size": {"type": "integer", "default": 64, "description": "Samples."},
                 "gradient_clip_norm": {"anyOf": [{"const": null}, {"type": "number"}], "default": null, "description": "Limit."},
                 "gradient_accumulation_steps": {"type": "integer", "default": 1, "description": "Parts."})" +
          (options.empty() ? "" : ", " + options));
}

SchemaSet schemas() {
  const SchemaTexts texts = schema_texts({
      {"model/plain.schema.json",
       kind("model.plain", R"("x-version": 1, "x-outputs": {"model": "model"})")},
      {"model/normed.schema.json",
       kind("model.normed",
            R"("x-version": 1, "x-mixes-samples": true, "x-outputs": {"model": "model"})")},
      {"memory/policy.schema.json",
       kind(
           "memory.policy", R"("x-version": 1, "x-outputs": {"memory": "memory_policy"})",
           R"("micro_batch": {"anyOf": [{"const": "auto"}, {"type": "integer"}], "default": "auto", "description": "Part."},
               "two_pass": {"anyOf": [{"type": "boolean"}, {"const": "auto"}], "default": false, "description": "Twice."},
               "precision": {"anyOf": [{"enum": ["fp32", "fp16"]}, {"type": "object"}], "default": "fp32", "description": "Format."},
               "optimizer_in_backward": {"anyOf": [{"type": "boolean"}, {"const": "auto"}], "default": false, "description": "Early."})")},
      {"train/samples.schema.json", train("train.samples", R"("per_sample")")},
      {"train/episodes.schema.json", train("train.episodes", R"("per_group")")},
      {"train/pairs.schema.json", train("train.pairs", R"("whole_batch")")},
      {"train/silent.schema.json", train("train.silent", "")},
      {"train/chosen.schema.json",
       train(
           "train.chosen", "",
           R"("loss": {"type": "object", "x-kinds": "train/loss", "x-default-kind": "plain", "default": {}, "description": "A loss."},
         "terms": {"type": "object", "additionalProperties": false, "default": {}, "description": "More.", "properties": {
           "negatives": {"enum": ["none", "batch"], "x-coupling": {"none": "per_sample", "batch": "whole_batch"},
                         "default": "none", "description": "Which."}}})")},
      {"train/loss/plain.schema.json", kind("train/loss/plain", R"("x-coupling": "per_sample")")},
      {"train/loss/contrast.schema.json",
       kind("train/loss/contrast", R"("x-coupling": "whole_batch")")},
  });
  auto schemas = SchemaSet::load(texts.files);
  if (!schemas)
    throw std::logic_error(schemas.errors().front().pointer + schemas.errors().front().message);
  return *std::move(schemas);
}

class LegalityTest : public testing::Test {
 protected:
  /// Returns "pointer line:column: message" for each error in a recipe with these three stages.
  std::vector<std::string> errors(const std::string& model, const std::string& memory,
                                  const std::string& train) {
    const auto recipe =
        fake_recipe("model: {kind: model." + model + "}\nmemory: {kind: memory.policy" + memory +
                        "}\ntrain: {kind: train." + train + "}\n",
                    schemas_, sources_);
    if (!recipe) return {recipe.errors().front().message};
    const auto graph = compile(*recipe, schemas_);
    std::vector<std::string> lines;
    if (graph) return lines;
    for (const Diagnostic& error : graph.errors()) {
      EXPECT_EQ(error.code, ErrorCode::kOptionConflict);
      lines.push_back(error.pointer + " " + std::to_string(error.where.line) + ":" +
                      std::to_string(error.where.column) + ": " + error.message + " | " +
                      error.help);
    }
    return lines;
  }

  const SchemaSet schemas_ = schemas();
  Sources sources_;
};

const std::string kWholeHelp =
    " | set memory.two_pass=on, which does not change the gradient, or leave the batch whole";
const std::string kCutsWhole =
    "/memory/micro_batch 3:44: micro_batch 16 would split the batch of 64 in 'train', but its loss "
    "depends on the whole batch at once" +
    kWholeHelp;

TEST_F(LegalityTest, PerSampleLossMayBeSplit) {
  EXPECT_THAT(errors("plain", ", micro_batch: 16", "samples"), IsEmpty());
  EXPECT_THAT(errors("plain", ", micro_batch: 16", "silent"), IsEmpty());
  EXPECT_THAT(errors("plain", ", two_pass: on", "samples"), IsEmpty());
}

TEST_F(LegalityTest, WholeBatchLossCannotBeSplit) {
  EXPECT_THAT(errors("plain", ", micro_batch: 16", "pairs"), ElementsAre(kCutsWhole));
}

TEST_F(LegalityTest, TwoPassesMakeTheSplitLegal) {
  EXPECT_THAT(errors("plain", ", micro_batch: 16, two_pass: on", "pairs"), IsEmpty());
  EXPECT_THAT(errors("plain", ", micro_batch: 16, two_pass: true", "pairs"), IsEmpty());
  EXPECT_THAT(errors("plain", ", micro_batch: 16, two_pass: off", "pairs"),
              ElementsAre(kCutsWhole));
}

TEST_F(LegalityTest, AutomaticChoicesAreNotChecked) {
  EXPECT_THAT(errors("plain", ", micro_batch: 16, two_pass: auto", "pairs"), IsEmpty());
  EXPECT_THAT(errors("normed", ", micro_batch: auto, two_pass: auto", "pairs"), IsEmpty());
}

TEST_F(LegalityTest, MicroBatchOfTheWholeBatchSplitsNothing) {
  EXPECT_THAT(errors("normed", ", micro_batch: 64", "pairs"), IsEmpty());
}

TEST_F(LegalityTest, MicroBatchAboveTheBatchIsRejected) {
  EXPECT_THAT(
      errors("plain", ", micro_batch: 65", "samples"),
      ElementsAre("/memory/micro_batch 3:44: micro_batch 65 is larger than the batch of 64 in "
                  "'train': it would split nothing | set micro_batch: auto, or at most 64"));
}

TEST_F(LegalityTest, AccumulationOfAWholeBatchLossIsRejected) {
  EXPECT_THAT(
      errors("plain", "", "pairs, gradient_accumulation_steps: 4"),
      ElementsAre("/train/gradient_accumulation_steps 4:57: gradient_accumulation_steps 4 "
                  "accumulates the batch of 256 from smaller ones, but its loss depends on the "
                  "whole batch at once" +
                  kWholeHelp));
  EXPECT_THAT(errors("plain", ", two_pass: on", "pairs, gradient_accumulation_steps: 4"),
              IsEmpty());
  EXPECT_THAT(errors("plain", "", "samples, gradient_accumulation_steps: 4"), IsEmpty());
}

TEST_F(LegalityTest, LayersThatMixSamplesNeedTwoSamples) {
  const std::string help = " | set batch_size: 2 or more";
  const auto alone = [&](const char* column) {
    return ElementsAre("/train/batch_size 4:" + std::string(column) +
                       ": batch_size 1 gives 'train' one sample at a time, but layers of 'model' "
                       "mix the samples of a batch (BatchNorm) and need at least two" +
                       help);
  };
  EXPECT_THAT(errors("normed", "", "samples, batch_size: 1"), alone("42"));
  EXPECT_THAT(errors("normed", "", "silent, batch_size: 1"), alone("41"));
  EXPECT_THAT(errors("normed", "", "samples, batch_size: 1, gradient_accumulation_steps: 8"),
              alone("42"));
  EXPECT_THAT(errors("normed", "", "samples, batch_size: 2, gradient_accumulation_steps: 4"),
              IsEmpty());
  EXPECT_THAT(errors("normed", "", "episodes, batch_size: 1"), IsEmpty());
  EXPECT_THAT(errors("plain", "", "samples, batch_size: 1"), IsEmpty());
}

TEST_F(LegalityTest, LossThatComparesSamplesNeedsTwoSamples) {
  EXPECT_THAT(
      errors("plain", "", "pairs, batch_size: 1"),
      ElementsAre("/train/batch_size 4:40: with a batch of 1, the loss of 'train' has nothing to "
                  "compare the sample with and is always 0 | set batch_size: 2 or more"));
  EXPECT_THAT(
      errors("plain", ", two_pass: on", "pairs, batch_size: 1, gradient_accumulation_steps: 4"),
      IsEmpty());
  EXPECT_THAT(errors("plain", "", "pairs, batch_size: 2"), IsEmpty());
}

TEST_F(LegalityTest, OptimizerInBackwardCannotWaitForOtherGradients) {
  const std::string in_backward = ", optimizer_in_backward: true";
  const auto one = [](const std::string& why, const std::string& help) {
    return ElementsAre(testing::EndsWith(
        ": optimizer_in_backward updates each weight as soon as its own gradient is ready, but " +
        why + " | " + help));
  };
  const auto split =
      one("the batch of 'train' is split, and its micro-batches' gradients must be summed first",
          "set optimizer_in_backward: false, or leave the batch whole");
  EXPECT_THAT(errors("plain", in_backward, "samples"), IsEmpty());
  EXPECT_THAT(errors("plain", in_backward + ", micro_batch: 64", "samples"), IsEmpty());
  EXPECT_THAT(errors("plain", in_backward + ", micro_batch: 16", "samples"), split);
  EXPECT_THAT(errors("plain", in_backward, "samples, gradient_accumulation_steps: 2"), split);
  EXPECT_THAT(errors("plain", in_backward, "samples, gradient_clip_norm: 1.0"),
              one("gradient_clip_norm of 'train' needs the norm of all gradients together",
                  "set optimizer_in_backward: false, or gradient_clip_norm: null"));
  const auto half =
      one("fp16 skips a step if its gradients overflow, which is known only once all gradients are "
          "ready",
          "set precision: bf16, or optimizer_in_backward: false");
  EXPECT_THAT(errors("plain", in_backward + ", precision: fp16", "samples"), half);
  EXPECT_THAT(
      errors("plain", in_backward + ", precision: {default: fp32, model.head: fp16}", "samples"),
      half);
  EXPECT_THAT(
      errors("plain", ", micro_batch: 16, precision: fp16", "samples, gradient_clip_norm: 1.0"),
      IsEmpty());
  EXPECT_THAT(errors("plain", ", optimizer_in_backward: auto, micro_batch: 16", "samples"),
              IsEmpty());
}

TEST_F(LegalityTest, BatchesOfLayersThatMixSamplesCannotBeSplit) {
  EXPECT_THAT(
      errors("normed", ", micro_batch: 16", "samples"),
      ElementsAre("/memory/micro_batch 3:44: micro_batch 16 would split the batch of 64 in "
                  "'train', but layers of 'model' mix the samples of a batch (BatchNorm): the "
                  "gradient would differ | set micro_batch: auto; activation_checkpointing: block "
                  "saves memory and gives the same result bit for bit"));
}

TEST_F(LegalityTest, AccumulationThroughBatchNormIsDeclared) {
  EXPECT_THAT(errors("normed", "", "samples, gradient_accumulation_steps: 4"), IsEmpty());
}

TEST_F(LegalityTest, BatchesMayBeSplitBetweenGroups) {
  EXPECT_THAT(errors("normed", ", micro_batch: 16", "episodes"), IsEmpty());
}

TEST_F(LegalityTest, TwoPassesThroughLayersThatMixSamplesAreRejected) {
  for (const char* loss : {"samples", "episodes", "pairs"}) {
    EXPECT_THAT(
        errors("normed", ", two_pass: on", loss),
        ElementsAre("/memory/two_pass 3:41: two_pass would split each batch of 'train', but "
                    "layers of 'model' mix the samples of a batch (BatchNorm): the gradient "
                    "would differ | set two_pass: off; activation_checkpointing: block saves "
                    "memory and gives the same result bit for bit"));
  }
}

TEST_F(LegalityTest, BothReasonsAreReported) {
  EXPECT_EQ(errors("normed", ", micro_batch: 16", "pairs").size(), 2u);
}

TEST_F(LegalityTest, KindOfASubMappingDecidesWhetherASplitIsLegal) {
  EXPECT_THAT(errors("plain", ", micro_batch: 16", "chosen"), IsEmpty());
  EXPECT_THAT(errors("plain", ", micro_batch: 16", "chosen, loss: {kind: contrast}"),
              ElementsAre(kCutsWhole));
}

TEST_F(LegalityTest, OptionValueDecidesWhetherASplitIsLegal) {
  EXPECT_THAT(errors("plain", ", micro_batch: 16", "chosen, terms: {negatives: batch}"),
              ElementsAre(kCutsWhole));
}

TEST_F(LegalityTest, NodesOfOneForeachAreReportedOnce) {
  EXPECT_EQ(errors("plain", ", micro_batch: 16", "pairs, foreach: {seed: [1, 2, 3]}").size(), 1u);
}

TEST(Coupling, DependsOnKindAndOptions) {
  const SchemaSet set = schemas();
  EXPECT_EQ(declared_coupling(set, "train.pairs", {}), LossCoupling::kWholeBatch);
  EXPECT_EQ(declared_coupling(set, "train.silent", {}), std::nullopt);
  EXPECT_EQ(declared_coupling(set, "train.none", {}), std::nullopt);
  EXPECT_TRUE(declared_mixing(set, "model.normed"));
  EXPECT_FALSE(declared_mixing(set, "model.plain"));
  EXPECT_FALSE(declared_mixing(set, "model.none"));
  EXPECT_EQ(name(LossCoupling::kPerGroup), "per_group");
}

TEST(Coupling, UnknownValuesInASchemaAreRejected) {
  for (const char* value :
       {R"("per_batch")", "1", "{}", R"({"a": "b"})", R"({"a": {"b": "per_group"}})"}) {
    const SchemaTexts texts = schema_texts({{"train/odd.schema.json", train("train.odd", value)}});
    EXPECT_THAT(said(SchemaSet::load(texts.files)),
                ElementsAre("/x-coupling: schemas/train/odd.schema.json: 'x-coupling' must be "
                            "per_sample, per_group or whole_batch, or one of them for each value"))
        << value;
  }
}

/// Every shipped kind of training declares the samples that its loss depends on; tests/stages
/// compares this with the C++ code.
TEST(Coupling, EveryShippedTrainingKindDeclaresIt) {
  const auto set = SchemaSet::load(embedded_schemas());
  ASSERT_TRUE(set);
  for (const Kind& kind : set->kinds()) {
    if (kind.family != "train") continue;
    const auto text = set->document(kind.name)->dump();
    EXPECT_NE(text.find("\"x-coupling\""), text.npos) << kind.name;
  }
  for (const std::string& loss : set->sub_kinds("train/loss"))
    EXPECT_TRUE(declared_coupling(*set, "train/loss/" + loss, {})) << loss;
}

}  // namespace
}  // namespace runner
