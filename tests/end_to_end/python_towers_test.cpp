// End-to-end tests of tokenizers in Python and of class heads, for Python networks with two towers.

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hosted_towers.h"
#include "tests/support/program.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/// Code for tokenizers that use bytes as tokens. `returned` is computed from the `rows` of 32
/// tokens.
std::string tokenizer_code(const std::string& returned = "rows") {
  return R"(import random
import numpy
import torch


class Encoding(dict):  # like the BatchEncoding of transformers
    pass


def make(length=32):
    def tokenize(texts):
        rows = [list(text.encode())[:length] for text in texts]
        rows = [row + [0] * (length - len(row)) for row in rows]
        return )" +
         returned + R"(
    return tokenize
)";
}

class PythonTokenizerTest : public HostedTowers {
 protected:
  static constexpr const char* kOption =
      "'model.towers={tokenizer: {entry: \"my_tokens.py:make\"}}'";

  void SetUp() override {
    HostedTowers::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    trust(towers_code());
    trust(tokenizer_code(), "my_tokens.py");
  }
  /// The error of a run with this tokenizer.
  std::string tokenizer_refusal(const std::string& returned, const std::string& more = "") const {
    trust(tokenizer_code(returned), "my_tokens.py");
    const Ended run = train(kOption + (" " + more), "refused");
    EXPECT_NE(run.exit, 0) << run.err;
    EXPECT_NE(run.exit, 70) << run.err;
    EXPECT_FALSE(fs::exists(folder_ / "refused/nodes/train/checkpoints/latest"));
    return run.err;
  }
};

/// Every command imports torch, which takes seconds.
class DeepPythonTokenizerTest : public PythonTokenizerTest {};

TEST_F(PythonTokenizerTest, NetworkIsTrainedEvaluatedAndResumedWithItsTokens) {
  const Ended whole = train(kOption, "whole");
  ASSERT_EQ(whole.exit, 0) << whole.err;
  EXPECT_THAT(whole.err, Not(HasSubstr("every byte of a caption is one token")));
  const std::string killed = "RETORT_FAULT=retort-worker/step:3:kill";
  ASSERT_NE(train(kOption + std::string(" memory.max_retries=0"), "killed", killed).exit, 0);
  const Ended resumed = here("resume killed");
  ASSERT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_FALSE(weights("whole").empty());
  EXPECT_TRUE(weights("killed") == weights("whole"));
  EXPECT_EQ(metrics("killed/nodes/evaluate"), metrics("whole/nodes/evaluate"));
  const std::string image = "cars/cars_test/00001.jpg";
  const Ended asked =
      here("predict whole " + image + R"( --labels "a red car" "a blue car" --json)");
  EXPECT_EQ(asked.exit, 0) << asked.err;
  EXPECT_THAT(asked.out, HasSubstr("a red car"));
  for (const std::string command : {"embed whole cars/cars_test --out embedded",
                                    "export whole --out exported", "evaluate whole"}) {
    const Ended used = here(command);
    EXPECT_EQ(used.exit, 0) << command << used.err;
  }
}

TEST_F(PythonTokenizerTest, TokenizerCodeMustBeTrustedAndIsRecorded) {
  folder_.write("my_tokens.py", tokenizer_code() + "# changed\n");
  const Ended refused = train(kOption, "refused");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("my_tokens.py' has changed since you trusted it"),
                                 HasSubstr("[/model/towers/tokenizer/entry]")));
  ASSERT_EQ(here("trust my_tokens.py").exit, 0);
  ASSERT_EQ(train(kOption + std::string(" train.epochs=1")).exit, 0);
  EXPECT_EQ(file_text(folder_ / "run/.retort/python/my_tokens.py"),
            tokenizer_code() + "# changed\n");
  trust(tokenizer_code() + "# again\n", "my_tokens.py");
  const Ended changed = here("evaluate run run.dir=again");
  EXPECT_NE(changed.exit, 0);
  EXPECT_THAT(changed.err, AllOf(HasSubstr("E0807"), HasSubstr("my_tokens.py")));
}

TEST_F(PythonTokenizerTest, ClipTokenizerOptionsAreRejected) {
  folder_.write("merges.txt", "");
  const Ended run = train(kOption + std::string(" model.towers.tokenizer.merges=merges.txt "
                                                "model.towers.tokenizer.cleaning=openai"),
                          "refused");
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("merges has no effect: entry names a tokenizer in Python"),
                    HasSubstr("cleaning has no effect: entry names a tokenizer in Python")));
}

TEST_F(DeepPythonTokenizerTest, TokensMayHaveAnyFormThatLibrariesReturn) {
  ASSERT_EQ(train(kOption, "lists").exit, 0);
  const std::string expected = weights("lists");
  EXPECT_FALSE(expected.empty());
  for (const std::string returned :
       {"numpy.array(rows, dtype='int32')", "torch.tensor(rows, dtype=torch.int16)",
        "[numpy.array(row) for row in rows]", "Encoding(input_ids=rows, attention_mask=None)",
        "Encoding(input_ids=torch.tensor(rows))"}) {
    SCOPED_TRACE(returned);
    trust(tokenizer_code(returned), "my_tokens.py");
    fs::remove_all(folder_ / "other");
    const Ended run = train(kOption, "other");
    ASSERT_EQ(run.exit, 0) << run.err;
    EXPECT_TRUE(weights("other") == expected);
  }
}

TEST_F(DeepPythonTokenizerTest, InvalidTokensAreReported) {
  const auto refused = [&](const std::string& returned) { return tokenizer_refusal(returned); };
  EXPECT_THAT(refused("{}['word']"),
              AllOf(HasSubstr("KeyError: 'word' ("), HasSubstr("my_tokens.py:"),
                    HasSubstr("[/model/towers/tokenizer/entry]")));
  EXPECT_THAT(refused("None"), HasSubstr("the tokenizer of my_tokens.py:make returned nothing"));
  EXPECT_THAT(refused("{'ids': rows}"), HasSubstr("returned a mapping with 'ids'"));
  EXPECT_THAT(refused("[list(text.encode()) for text in texts]"),
              AllOf(HasSubstr("returned rows of 16 to 33 tokens"), HasSubstr("max_length=77")));
  EXPECT_THAT(refused("torch.tensor(rows) / 2"), HasSubstr("returned tokens of type float32"));
  EXPECT_THAT(refused("[[0.5] for row in rows]"), HasSubstr("returned tokens of type float"));
  EXPECT_THAT(refused("rows[1:]"), HasSubstr("returned tokens of shape (1, 32) for 2 texts"));
  EXPECT_THAT(refused("[[-1] * 32 for row in rows]"), HasSubstr("returned the token -1 for 'a "));
  EXPECT_THAT(refused("[[random.randrange(9)] for row in rows]"),
              HasSubstr("draws random numbers, so a resumed run would train on other tokens"));
  EXPECT_THAT(refused("[[514] * 32 for row in rows]"),
              AllOf(HasSubstr("returned the token 514 for 'a photo of a "),
                    HasSubstr("the network has embeddings for 514 tokens")));
  trust("make = 5\n", "my_tokens.py");
  EXPECT_THAT(train(kOption, "refused").err, HasSubstr("is of type int, not a function or class"));
}

// Class heads.

class TowerClassHead : public HostedTowers {
 protected:
  static constexpr const char* kHead = "+model.towers.class_head=class_head";

  static std::string headed(const std::string& head = "nn.Linear(6, num_classes)") {
    return towers_code({.parts = "        self.class_head = " + head + "\n"});
  }
};

class DeepTowerClassHead : public TowerClassHead {};

TEST_F(TowerClassHead, CanBeTrainedAndEvaluatedAndCanPredict) {
  trust(headed());
  const Ended run = train(kHead + std::string(" train.monitor=accuracy train.frozen_epochs=1"));
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("class head: top-1"));
  const auto measured = metrics("run/nodes/evaluate");
  EXPECT_TRUE(measured.contains("class_head")) << measured;
  const Ended asked = here("predict run cars/cars_test/00001.jpg --json");
  ASSERT_EQ(asked.exit, 0) << asked.err;
  EXPECT_THAT(asked.out, Not(HasSubstr("a photo of a")));
  const Ended evaluated = train(kHead + std::string(" train.monitor=accuracy "
                                                    "evaluate.kind=evaluate.classification"),
                                "classified");
  EXPECT_EQ(evaluated.exit, 0) << evaluated.err;
}

TEST_F(DeepTowerClassHead, SupervisedTrainingNeedsNoCaptions) {
  trust(headed());
  folder_.write("supervised.yaml", R"(schema: 1
name: supervised
seed: 42
device: cpu
defaults: [{data: stanford_cars}, {memory: auto}, _self_]
data: {root: cars, image_size: 16, validation: 0.3, loader: {workers: 0}}
model: {kind: model.python, entry: "my_clip.py:Clip", towers: {class_head: class_head}}
train: {kind: train.supervised, epochs: 1, batch_size: 8}
evaluate: {kind: evaluate.classification}
)");
  const Ended run = here("run supervised.yaml run.dir=run python=" + python_->string());
  EXPECT_EQ(run.exit, 0) << run.err;
}

TEST_F(DeepTowerClassHead, InvalidHeadIsReported) {
  const std::string options = kHead + std::string(" train.monitor=accuracy");
  EXPECT_THAT(refusal(headed("None"), options),
              AllOf(HasSubstr("has no module or method 'class_head'"),
                    HasSubstr("[/model/towers/class_head]")));
  EXPECT_THAT(refusal(headed("nn.Linear(6, 7)"), options),
              HasSubstr("returned 7 logits per sample, but the data needs 3"));
  EXPECT_THAT(refusal(headed("nn.Linear(5, num_classes)"), options),
              HasSubstr("[/model/towers/class_head]"));
  EXPECT_THAT(refusal(headed("(lambda x: x.sum(1))"), options),
              HasSubstr("'class_head' returned logits of shape (8) and type Float"));
  EXPECT_THAT(refusal(headed("(lambda x: None)"), options),
              HasSubstr("the class head returned NoneType"));
  EXPECT_THAT(refusal(headed(), options + " 'model.adapters={targets: [mlp], rank: 2}'"),
              AllOf(HasSubstr("the class head 'class_head' would keep its initial values"),
                    HasSubstr("[/model/adapters/modules_to_save]")));
}

TEST_F(TowerClassHead, OptionsThatNeedAClassHeadAreRejectedWithoutOne) {
  trust(towers_code());
  const Ended run = train(
      "train.frozen_epochs=1 train.monitor=accuracy "
      "evaluate.kind=evaluate.classification");
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("model.towers.class_head does not name it"),
                    HasSubstr("but model.towers.class_head names none"),
                    HasSubstr("specify the network's class head in model.towers.class_head")));
}

}  // namespace
