#include "runner/parent/cli/completion/complete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class Complete : public testing::Test {
 protected:
  Complete() {
    folder_.write("recipes/petals.yaml", R"(# Tells petals apart. At length.
schema: 1
defaults: [{data: rose}, {train/optimizer: sgd}, _self_]
aliases:
  lr: train.optimizer.learning_rate
  original.training: train
  original.data: data
  speed: {fast: [train.epochs=1], "slow": [train.epochs=9]}
  gone: {instead: "nothing"}
train: {kind: train.supervised, epochs: 7}
evaluate: {kind: evaluate.classification}
)");
    folder_.write("recipes/data/rose.yaml",
                  "# Photographs of roses.\nkind: data.image_folder\nroot: roses\n");
    folder_.write("recipes/data/lily.yaml", "kind: data.image_folder\nroot: lilies\n");
    folder_.write("recipes/data/broken.yaml", "a: [\n");
    folder_.write("recipes/train/optimizer/sgd.yaml", "kind: sgd\n");
    folder_.write("recipes/train/optimizer/adamw.yaml", "kind: adamw\n");
    folder_.write("recipes/shape/round.yaml", "a: 1\n");
    folder_.write("recipes/plain.yaml", "flag: true\nsome: {where: 1, 'no key': 2}\n");
  }

  std::vector<std::string> completed(std::vector<std::string> words) {
    words.insert(words.begin() + 1, {"--config-dir", folder_.path().string()});
    std::vector<std::string> texts;
    for (const Candidate& candidate : complete(words)) texts.push_back(candidate.text);
    return texts;
  }
  /// The completions after `retort run petals` and these words.
  std::vector<std::string> of_petals(std::vector<std::string> words) {
    words.insert(words.begin(), {"run", "petals"});
    return completed(words);
  }
  std::string description(std::vector<std::string> words, const std::string& text) {
    words.insert(words.begin() + 1, {"--config-dir", folder_.path().string()});
    for (const Candidate& candidate : complete(words)) {
      if (candidate.text == text) return candidate.description;
    }
    return "not among them";
  }

  TemporaryFolder folder_;
};

std::vector<std::string> texts(std::vector<std::string> words) {
  std::vector<std::string> result;
  for (const Candidate& candidate : complete(words)) result.push_back(candidate.text);
  return result;
}

TEST(CompleteRuns, ActionsAndKeysToSortBy) {
  EXPECT_THAT(texts({"runs", "re"}), ElementsAre("reset", "rerun", "reproduce", "reindex"));
  EXPECT_THAT(texts({"runs", "ls", "--sort", "st"}), ElementsAre("started", "status"));
}

TEST_F(Complete, Verbs) {
  EXPECT_THAT(texts({"va"}), ElementsAre("validate"));
  EXPECT_THAT(texts({"pl"}), ElementsAre("plan"));
  EXPECT_THAT(texts({"plan", "--gpu", "L4"}), ElementsAre("L4", "L40", "L40S"));
  EXPECT_THAT(texts({"--v"}), ElementsAre("--version"));
  EXPECT_THAT(texts({"nosuch", ""}), IsEmpty());
}

TEST_F(Complete, ActionsAndDatasetsOfData) {
  EXPECT_THAT(texts({"data", ""}), ElementsAre("make", "fetch", "check"));
  EXPECT_THAT(texts({"data", "make", ""}),
              ElementsAre("image_folder", "flowers102", "cub200", "mini_imagenet", "stanford_cars",
                          "aptos_2019", "eyepacs_2015", "fundus_folders"));
  EXPECT_THAT(texts({"data", "fetch", ""}), ElementsAre("cub200", "flowers102", "hf:"));
  EXPECT_THAT(texts({"data", "fetch", "--fro"}), ElementsAre("--from-file"));
  EXPECT_THAT(
      texts({"data", "fetch", "cub200", "--from-file", folder_.path().string() + "/recipes/pl"}),
      ElementsAre(folder_.path().string() + "/recipes/plain.yaml"));
}

TEST_F(Complete, FlagsOfTheVerb) {
  EXPECT_THAT(texts({"run", "--sm"}), ElementsAre("--smoke"));
  EXPECT_THAT(texts({"validate", "--sm"}), IsEmpty());
}

TEST_F(Complete, FlagValueAfterASpaceOrEqualSign) {
  EXPECT_THAT(texts({"graph", "--format", "d"}), ElementsAre("dot"));
  EXPECT_THAT(texts({"graph", "--format=d"}), ElementsAre("--format=dot"));
}

TEST_F(Complete, WordsOfAVerb) {
  EXPECT_THAT(texts({"config", "d"}), ElementsAre("diff"));
  EXPECT_THAT(texts({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(texts({"schema", "train.sup"}), ElementsAre("train.supervised"));
  EXPECT_THAT(
      texts({"schema", "train/optimizer/a"}),
      ElementsAre("train/optimizer/adafactor", "train/optimizer/adam", "train/optimizer/adamw"));
}

TEST_F(Complete, RecipesByNameWithDescriptions) {
  EXPECT_THAT(completed({"run", "pet"}), ElementsAre("petals"));
  EXPECT_EQ(description({"run", "pet"}, "petals"), "Tells petals apart.");
  EXPECT_THAT(completed({"config", "show", "pet"}), ElementsAre("petals"));
  EXPECT_THAT(completed({"run", "--config-name", "pet"}), ElementsAre("petals"));
}

TEST_F(Complete, RecipesAfterOverrides) {
  EXPECT_THAT(completed({"run", "seed=1", "pet"}), ElementsAre("petals"));
}

TEST_F(Complete, RecipeFilesAndFolders) {
  const std::string below = folder_.path().string() + "/recipes/";
  EXPECT_THAT(texts({"run", below + "p"}),
              ElementsAre(below + "petals.yaml", below + "plain.yaml"));
  EXPECT_THAT(texts({"run", below + "da"}), ElementsAre(below + "data/"));
}

TEST_F(Complete, OnlyFoldersForAFolderOption) {
  const std::string below = folder_.path().string() + "/recipes/";
  EXPECT_THAT(texts({"run", "--config-dir", below}),
              ElementsAre(below + "data/", below + "shape/", below + "train/"));
}

TEST_F(Complete, KeysOneLevelAtATime) {
  EXPECT_THAT(of_petals({"train.opt"}), ElementsAre("train.optimizer."));
  EXPECT_THAT(of_petals({"train.optimizer.le"}), ElementsAre("train.optimizer.learning_rate="));
  EXPECT_THAT(of_petals({"sce"}), IsEmpty());
}

TEST_F(Complete, KeysWithValuesAndDescriptions) {
  EXPECT_EQ(description({"run", "petals", "train.ep"}, "train.epochs="),
            "[7] Passes over the training data.");
}

TEST_F(Complete, KeysDependingOnEarlierWords) {
  EXPECT_THAT(of_petals({"train.optimizer.am"}), IsEmpty());
  EXPECT_THAT(of_petals({"train/optimizer=adamw", "train.optimizer.am"}),
              ElementsAre("train.optimizer.amsgrad="));
}

TEST_F(Complete, BrokenEarlierWordsAreIgnored) {
  EXPECT_THAT(of_petals({"a=[", "nosuch=1", "data=nosuch", "gone=1", "lr=1",
                         "train/optimizer=adamw", "train.optimizer.am"}),
              ElementsAre("train.optimizer.amsgrad="));
}

TEST_F(Complete, BrokenFileAfterAWordIsIgnored) {
  EXPECT_THAT(of_petals({"data=broken", "train.opt"}), ElementsAre("train.optimizer."));
}

TEST_F(Complete, EarlierSweepCountsAsItsFirstValue) {
  EXPECT_THAT(of_petals({"train/optimizer=adamw,sgd", "train.optimizer.am"}),
              ElementsAre("train.optimizer.amsgrad="));
}

TEST_F(Complete, GroupsOfTheRecipe) {
  EXPECT_THAT(of_petals({"data"}), ElementsAre("data.", "data="));
  EXPECT_THAT(of_petals({"train/"}), ElementsAre("train/optimizer="));
  EXPECT_THAT(of_petals({"shape"}), IsEmpty());
}

TEST_F(Complete, OnlyMissingKeysAfterPlus) {
  EXPECT_THAT(of_petals({"+sh"}), ElementsAre("+shape="));
  EXPECT_THAT(of_petals({"+dat"}), ElementsAre("+data."));
  EXPECT_THAT(of_petals({"+train.ep"}), IsEmpty());
  EXPECT_THAT(of_petals({"+train.kee"}), ElementsAre("+train.keep="));
}

TEST_F(Complete, EveryKeyAfterTwoPluses) {
  EXPECT_THAT(of_petals({"++"}),
              AllOf(Contains("++shape="), Contains("++data="), Contains("++train.")));
  EXPECT_THAT(of_petals({"++train.ep"}), ElementsAre("++train.epochs="));
}

TEST_F(Complete, OnlyPresentKeysAfterTilde) {
  EXPECT_THAT(of_petals({"~dat"}), ElementsAre("~data", "~data."));
  EXPECT_THAT(of_petals({"~train.ep"}), ElementsAre("~train.epochs"));
  EXPECT_THAT(of_petals({"~train.kee"}), IsEmpty());
}

TEST_F(Complete, OptionsOfAGroup) {
  EXPECT_THAT(of_petals({"data=r"}), ElementsAre("data=rose"));
  EXPECT_EQ(description({"run", "petals", "data="}, "data=rose"), "Photographs of roses.");
  EXPECT_THAT(of_petals({"+shape="}), ElementsAre("+shape=round"));
  EXPECT_THAT(of_petals({"+shape@data.shape=r"}), ElementsAre("+shape@data.shape=round"));
}

TEST_F(Complete, LastOfSeveralValues) {
  EXPECT_THAT(of_petals({"data=rose,"}),
              AllOf(Contains("data=rose,lily"), Not(Contains("data=rose,rose"))));
  EXPECT_THAT(of_petals({"data=rose,li"}), ElementsAre("data=rose,lily"));
  EXPECT_THAT(of_petals({"data=[rose,li"}), ElementsAre("data=[rose,lily"));
  EXPECT_THAT(of_petals({"train.keep=best,"}),
              ElementsAre("train.keep=best,auto", "train.keep=best,last"));
}

TEST_F(Complete, ValuesOfTheSchema) {
  EXPECT_THAT(of_petals({"train.keep="}),
              ElementsAre("train.keep=auto", "train.keep=best", "train.keep=last"));
  EXPECT_THAT(of_petals({"train.optimizer.nest"}), ElementsAre("train.optimizer.nesterov="));
  EXPECT_THAT(of_petals({"train.optimizer.nesterov="}),
              ElementsAre("train.optimizer.nesterov=true", "train.optimizer.nesterov=false"));
  EXPECT_THAT(of_petals({"device="}), AllOf(Contains("device=cpu"), Contains("device=auto")));
  EXPECT_THAT(of_petals({"device.select=cp"}), ElementsAre("device.select=cpu"));
}

TEST_F(Complete, KindsOfTheFamily) {
  EXPECT_THAT(of_petals({"train.kind="}), AllOf(Contains("train.kind=train.supervised"),
                                                Each(StartsWith("train.kind=train."))));
  EXPECT_THAT(of_petals({"train.optimizer.kind=ad"}),
              ElementsAre("train.optimizer.kind=adafactor", "train.optimizer.kind=adam",
                          "train.optimizer.kind=adamw"));
}

TEST_F(Complete, AliasesAndKeysBelowThem) {
  EXPECT_THAT(of_petals({"l"}), ElementsAre("lr="));
  EXPECT_THAT(of_petals({"original."}),
              ElementsAre("original.data.", "original.data=", "original.training."));
  EXPECT_THAT(of_petals({"original.training.epo"}), ElementsAre("original.training.epochs="));
  EXPECT_THAT(of_petals({"original.training.keep=l"}), ElementsAre("original.training.keep=last"));
  EXPECT_THAT(of_petals({"original.data=li"}), ElementsAre("original.data=lily"));
  EXPECT_THAT(of_petals({"speed="}), ElementsAre("speed=fast", "speed=slow"));
  EXPECT_THAT(of_petals({"go"}), IsEmpty());
}

TEST_F(Complete, PathsOfFilesAndFolders) {
  const std::string below = "data.root=" + folder_.path().string() + "/recipes/";
  EXPECT_THAT(of_petals({below + "p"}), ElementsAre(below + "petals.yaml", below + "plain.yaml"));
}

TEST_F(Complete, OnlyKeysOfTheRecipeWithoutASchema) {
  EXPECT_THAT(completed({"run", "plain", "f"}), ElementsAre("flag="));
  EXPECT_THAT(completed({"run", "plain", "flag="}), ElementsAre("flag=false", "flag=true"));
  EXPECT_THAT(completed({"run", "plain", "some."}), ElementsAre("some.where="));
  EXPECT_THAT(completed({"run", "plain", "see"}), IsEmpty());
}

TEST_F(Complete, StagesForOnlyAndKeysForPackage) {
  EXPECT_THAT(of_petals({"--only", "t"}), ElementsAre("train"));
  EXPECT_THAT(of_petals({"--package", "train.ep"}), ElementsAre("train.epochs"));
}

TEST_F(Complete, SecondRecipeOfDiff) {
  EXPECT_THAT(completed({"config", "diff", "petals", "pl"}), ElementsAre("plain"));
  EXPECT_THAT(completed({"config", "diff", "petals", "plain", "fl"}), ElementsAre("flag="));
}

TEST_F(Complete, NothingForAMissingRecipe) {
  EXPECT_THAT(completed({"run", "nosuch", "a"}), IsEmpty());
}

TEST_F(Complete, UnusualWordsWithoutThrowing) {
  for (const char* word : {"=", "+", "++", "~", "+=", "a=b=", "data=[[", "data={", ".", "..",
                           "train..", "@", "data@", "data@x=", "\xff", "$(x)", "'", "--", "-"}) {
    EXPECT_NO_THROW(of_petals({word})) << word;
    EXPECT_NO_THROW(of_petals({word, "train.ep"})) << word;
  }
}

}  // namespace
}  // namespace runner
