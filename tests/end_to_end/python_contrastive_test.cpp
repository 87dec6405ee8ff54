// End-to-end tests of Python networks that embed images and texts, trained with train.contrastive.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hosted_towers.h"
#include "tests/support/program.h"
#include "tests/support/small_clip.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/// Every command imports torch, which takes seconds.
class DeepHostedTowers : public HostedTowers {};

TEST_F(HostedTowers, NetworkCanBeTrainedEvaluatedAndExportedAndCanPredict) {
  trust(towers_code());
  const Ended run = train();
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("every byte of a caption is one token, out of 514"));
  const json classes = metrics("run/nodes/evaluate"), pairs = metrics("run/nodes/retrieval");
  EXPECT_EQ(classes["per_class"].size(), 3u);
  EXPECT_LE(pairs["image_to_text"]["recall_at_1"], pairs["image_to_text"]["recall_at_5"]);
  const Ended exported = here("export run --out out");
  EXPECT_EQ(exported.exit, 0) << exported.err;
  const Ended asked =
      here(R"(predict run cars/cars_test/00001.jpg --labels "a red car" "a blue car" --json)");
  ASSERT_EQ(asked.exit, 0) << asked.err;
  EXPECT_EQ(json::parse(asked.out.substr(0, asked.out.find('\n'))).at("classes").size(), 2u);
  EXPECT_EQ(here("predict run cars/cars_test/00001.jpg").exit, 0);
}

TEST_F(HostedTowers, ResumedTrainingIsBitIdentical) {
  trust(towers_code({.of_image = "        image = F.dropout(image, 0.1, self.training)\n"}));
  ASSERT_EQ(train("", "whole").exit, 0);
  ASSERT_NE(train("memory.max_retries=0", "killed", "RETORT_FAULT=retort-worker/step:3:kill").exit,
            0);
  const Ended resumed = here("resume killed");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_FALSE(weights("whole").empty());
  EXPECT_TRUE(weights("whole") == weights("killed"));
  EXPECT_EQ(metrics("killed/nodes/evaluate"), metrics("whole/nodes/evaluate"));
  EXPECT_EQ(metrics("killed/nodes/retrieval"), metrics("whole/nodes/retrieval"));
}

TEST_F(HostedTowers, MicroBatchesTrainLikeTheWholeBatch) {
  trust(towers_code());
  const std::string sgd = "train.optimizer.kind=sgd ";
  ASSERT_EQ(train(sgd, "whole").exit, 0);
  const Ended parts = train(sgd + "memory.two_pass=on memory.micro_batch=3", "parts");
  ASSERT_EQ(parts.exit, 0) << parts.err;
  EXPECT_FALSE(weights("parts") == weights("whole"));
  EXPECT_LT(most_different(last("parts"), last("whole")), 1e-6);
  const Ended recomputed = train(sgd + "memory.activation_checkpointing=block", "recomputed");
  ASSERT_EQ(recomputed.exit, 0) << recomputed.err;
  EXPECT_TRUE(weights("recomputed") == weights("whole"));
}

TEST_F(DeepHostedTowers, MicroBatchesAreCertifiedForANetworkThatIndexesWithABuffer) {
  trust(towers_code(
      {.parts = "        self.register_buffer('order', torch.arange(32), persistent=False)\n",
       .of_text = "        tokens = tokens[:, self.order]\n"}));
  const Ended certified =
      here("certify towers.yaml memory.two_pass=on memory.micro_batch=3 --json python=" +
           python_->string());
  EXPECT_EQ(certified.exit, 0) << certified.err << certified.out;
  EXPECT_THAT(certified.out, HasSubstr("with dropout"));
}

TEST_F(DeepHostedTowers, AdaptersOfBothTowersCanBeTrained) {
  trust(towers_code());
  const Ended run =
      train("'model.adapters={targets: [mlp], rank: 2, modules_to_save: [of_texts]}'");
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended unused = train("'model.adapters={targets: [unused], rank: 2}'", "unused");
  EXPECT_THAT(unused.err, HasSubstr("no layer is called 'unused'"));
  trust(towers_code({.parts = "        self.unused = nn.Linear(8, 8)\n"}));
  const Ended refused = train("'model.adapters={targets: [unused], rank: 2}'", "refused");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("the adapter of 'unused' has no effect"));
}

TEST_F(DeepHostedTowers, LogitScaleIsTrainedWithinItsLimit) {
  trust(towers_code());
  const auto scale_of = [&](const std::string& name) {
    const Ended read = run_shell(
        python_->string() + " -c \"from safetensors import safe_open; print(float(safe_open('" +
            last(name).string() + "', 'pt').get_tensor('logit_scale')))\"",
        folder_.path());
    EXPECT_EQ(read.exit, 0) << read.err;
    return std::stod(read.out);
  };
  ASSERT_EQ(train("", "free").exit, 0);
  EXPECT_NE(scale_of("free"), 2.6592);
  ASSERT_EQ(train("model.towers.maximum_logit_scale=2.5", "limited").exit, 0);
  EXPECT_LE(scale_of("limited"), 2.5);
  ASSERT_EQ(train("train.learning_rate_factors.logit_scale=0", "fixed").exit, 0);
  EXPECT_NEAR(scale_of("fixed"), 2.6592, 1e-6);
}

TEST_F(HostedTowers, SigmoidLossNeedsALogitBias) {
  trust(towers_code({.parts = "        self.bias = nn.Parameter(torch.tensor(-10.0))\n"}));
  const std::string sigmoid = "train.loss.function=sigmoid model.towers.logit_bias=";
  const Ended run = train(sigmoid + "bias");
  EXPECT_EQ(run.exit, 0) << run.err;
  const Ended refused = train(sigmoid + "offset", "refused");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("has no parameter 'offset'"));
}

TEST_F(DeepHostedTowers, LearningRateOfATowerIsSetByParameterNames) {
  trust(towers_code());
  const Ended factor = train("train.learning_rate_factors.image=0");
  EXPECT_EQ(factor.exit, 78) << factor.err;
  EXPECT_THAT(factor.err, HasSubstr("set the part's learning rate in parameter_groups"));
  const Ended run = train(
      "'train.parameter_groups=[{match: [patches, image_blocks.**, of_images], frozen: true}]'");
  EXPECT_EQ(run.exit, 0) << run.err;
}

TEST_F(DeepHostedTowers, MethodsAndTheLogitScaleCanHaveOtherNames) {
  const std::string methods = R"(
    def images_of(self, image):
        return {"image_embeddings": self.encode_image(image)}

    def texts_of(self, tokens):
        return {"text_embeddings": self.encode_text(tokens), "more": tokens}
)";
  trust(towers_code({.parts = "        self.head = nn.Module()\n"
                              "        self.head.log_factor = nn.Parameter(torch.ones(1))\n",
                     .methods = methods,
                     .scale = "None"}));
  const Ended run = train(
      "'model.towers={image: images_of, text: texts_of, logit_scale: head.log_factor}' "
      "model.towers.tokenizer.context_length=32 model.towers.tokenizer.too_long=cut");
  EXPECT_EQ(run.exit, 0) << run.err;
}

TEST_F(DeepHostedTowers, CaptionsArePaddedToTheContextLengthOrTheLongestCaption) {
  const std::string prints =
      "        print(tuple(tokens.shape)[1:], file=open('seen', 'a')) if not tokens.is_meta else "
      "0\n";
  trust(towers_code({.of_text = prints}));
  ASSERT_EQ(train("train.epochs=1").exit, 0);
  EXPECT_THAT(file_text(folder_ / "seen"), Not(HasSubstr("(31,)")));
  EXPECT_THAT(file_text(folder_ / "seen"), HasSubstr("(32,)"));
  const Ended shorter = train(
      "train.epochs=1 model.towers.tokenizer.padding=longest "
      "model.towers.tokenizer.context_length=200",
      "shorter");
  EXPECT_THAT(shorter.err, HasSubstr("it received int64 tokens of shape"));
}

// Rejected networks and options.

TEST_F(HostedTowers, NetworkWithoutTowersIsRejectedBeforePythonStarts) {
  trust("open('ran', 'w')\n");
  const Ended run = train("model.towers=null");
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the model does not take captions as input"));
  EXPECT_THAT(run.err, HasSubstr("model.towers={image: encode_image, text: encode_text}"));
  const Ended monitored = train("train.monitor=accuracy");
  EXPECT_EQ(monitored.exit, 78) << monitored.err;
  EXPECT_THAT(monitored.err, HasSubstr("model.towers.class_head names none"));
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
}

TEST_F(DeepHostedTowers, MismatchedTokenizerIsRejected) {
  const std::string fewer = refusal(towers_code({.tokens = 100}));
  EXPECT_THAT(fewer, HasSubstr("[/model/towers/tokenizer/merges]"));
  EXPECT_THAT(fewer, HasSubstr("embeddings for 100 tokens"));
  EXPECT_THAT(fewer, HasSubstr("build the network for 514 tokens"));
  EXPECT_THAT(
      refusal(towers_code(
          {.of_text = "        tokens = tokens.to(torch.int32).view(-1, 32)\n", .tokens = 100})),
      HasSubstr("embeddings for 100 tokens"));
  const std::string more = refusal(towers_code({.tokens = 49408}));
  EXPECT_THAT(more, HasSubstr("embeddings for 49408 tokens, but the tokenizer without merges"));
  EXPECT_THAT(more, HasSubstr("specify the merges"));
  EXPECT_THAT(refusal(towers_code(), "model.towers.tokenizer.context_length=20"),
              AllOf(HasSubstr("[/model/towers/text]"),
                    HasSubstr("it received int64 tokens of shape (1, 20)"),
                    HasSubstr("context_length, padding and merges must match the network")));
}

TEST_F(DeepHostedTowers, MissingMethodsAndParametersAreReported) {
  const std::string image = refusal(towers_code(), "+model.towers.image=encode_photo");
  EXPECT_THAT(image, HasSubstr("the network (Clip) has no method 'encode_photo'"));
  EXPECT_THAT(image, HasSubstr("[/model/towers/image]"));
  EXPECT_THAT(refusal(towers_code(), "+model.towers.text=places"),
              HasSubstr("the network (Clip) has no method 'places'"));
  const auto scale = [&](const std::string& code) { return refusal(towers_code({.scale = code})); };
  EXPECT_THAT(scale("None"), HasSubstr("has no parameter 'logit_scale'"));
  EXPECT_THAT(scale("2.6592"), HasSubstr("'logit_scale' of the network (Clip) is of type float"));
  EXPECT_THAT(scale("torch.tensor(2.6592)"), HasSubstr("is a tensor that is not a parameter"));
  EXPECT_THAT(scale("nn.Parameter(torch.ones(3))"), HasSubstr("is a parameter of shape (3,)"));
  EXPECT_THAT(scale("nn.Parameter(torch.tensor(float('nan')))"), HasSubstr("starts at nan"));
  EXPECT_THAT(scale("nn.Parameter(torch.tensor(14.3))"), HasSubstr("starts at 14.3"));
}

TEST_F(DeepHostedTowers, InvalidEmbeddingsAreReported) {
  const auto images = [&](const std::string& expression) {
    return refusal(towers_code({.of_image = "        return " + expression + "\n"}));
  };
  EXPECT_THAT(images("None"), HasSubstr("the image tower returned NoneType"));
  EXPECT_THAT(images("{'features': image}"), HasSubstr("returned dict with 'features'"));
  EXPECT_THAT(images("image.mean(3)"), HasSubstr("returned embeddings of shape (8, 3, 16) for"));
  EXPECT_THAT(images("self.of_images(image[1:, 0, 0, :8])"),
              HasSubstr("embeddings of shape (7, 6) for 8"));
  EXPECT_THAT(images("image[:, 0, 0, :6].long()"), HasSubstr("embeddings of type Long"));
  EXPECT_THAT(images("torch.zeros(len(image), 6)"),
              HasSubstr("returned 'image_embeddings' on cpu"));
  EXPECT_THAT(
      images("torch.cat([self.patches(image).mean((2, 3))], 1)"),
      HasSubstr(
          "'encode_text' returned embeddings of width 6, but embeddings of images have width 8"));
  EXPECT_THAT(images("self.patches(image).mean((2, 3))[:, :6] * float('nan')"),
              HasSubstr("is not finite at step 1"));
}

TEST_F(HostedTowers, ErrorNamesTheLayerThatPreventsMicroBatches) {
  const std::string cut = "memory.two_pass=on memory.micro_batch=4";
  const std::string drawing = refusal(
      towers_code({.of_text = "        self.training and torch.rand(1, device=tokens.device)\n"}),
      cut);
  EXPECT_THAT(drawing, HasSubstr("two_pass would encode a batch in parts, but the network draws "
                                 "random numbers on its own: aten::rand"));
  EXPECT_THAT(drawing, HasSubstr("(my_clip.py:"));
  EXPECT_THAT(refusal(towers_code({.parts = "        self.norm = nn.BatchNorm2d(3)\n",
                                   .of_image = "        image = self.norm(image)\n"}),
                      cut),
              HasSubstr("the network's layer 'norm' (BatchNorm2d) mixes the samples of a batch"));
}

TEST_F(HostedTowers, OtherTrainingAndEvaluationKindsAreRejected) {
  trust(towers_code());
  const Ended trained = train("train.kind=train.supervised");
  EXPECT_NE(trained.exit, 70) << trained.err;
  const Ended evaluated = train("evaluate.kind=evaluate.classification");
  EXPECT_EQ(evaluated.exit, 78) << evaluated.err;
  EXPECT_THAT(evaluated.err, HasSubstr("returns embeddings, but this evaluation needs logits"));
}

}  // namespace
