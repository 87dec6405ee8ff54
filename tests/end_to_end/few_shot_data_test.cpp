// End-to-end tests of few-shot datasets: making, listing and reading them with the shipped groups.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace {

using testing::HasSubstr;

class FewShotData : public testing::Test {
 protected:
  void SetUp() override {
    make("mini_imagenet --out dataset/miniImagenet --classes 12");
    folder_.write(
        "few.yaml",
        "schema: 1\nname: few\nvars: {image_size: {conv: 24}, cifar_image_size: {conv: 16}}\n"
        "defaults: [{data: mini_imagenet}, {model: tiny}, {memory: as_written}, {train: "
        "from_scratch}, _self_]\n"
        "data: {image_size: 24}\nmodel: {num_classes: 6}\n");
  }
  void make(const std::string& what) const {
    const Ended made =
        retort("data make " + what + " --per-class 6 --size 24 --seed 5 -q", folder_.path());
    ASSERT_EQ(made.exit, 0) << made.err;
  }
  Ended run(const std::string& overrides) const {
    return retort("run few.yaml --smoke run.dir=run " + overrides, folder_.path());
  }
  std::string log() const { return file_text(folder_ / "run/log.txt"); }
  TemporaryFolder folder_;
};

TEST_F(FewShotData, RecipeIsValidAndCanBeDrawn) {
  const Ended validated = retort("validate few.yaml", folder_.path());
  EXPECT_EQ(validated.exit, 0) << validated.err;
  EXPECT_EQ(validated.out, "few is valid: 4 stages, 4 nodes\n");
  const Ended drawn = retort("graph few.yaml", folder_.path());
  EXPECT_EQ(drawn.exit, 0) << drawn.err;
  EXPECT_THAT(drawn.out, HasSubstr("data    data.few_shot"));
  EXPECT_THAT(drawn.out, HasSubstr("data.validation"));
}

TEST_F(FewShotData, CanBeReadFromListsAndTables) {
  const Ended lists = run("data.validation=null");
  EXPECT_EQ(lists.exit, 0) << lists.err;
  EXPECT_THAT(log(), HasSubstr("train: 36 images of 6 classes, from base.json"));
  std::filesystem::remove_all(folder_ / "run");
  const Ended tables = run("data.train=train.csv data.validation=null data.test=test.csv");
  EXPECT_EQ(tables.exit, 0) << tables.err;
  EXPECT_THAT(log(), HasSubstr("test: 18 images of 3 classes, from test.csv"));
}

TEST_F(FewShotData, DownloadedBirdsCanBeRead) {
  make("cub200 --out dataset/CUB --classes 12");
  const Ended birds = run("data=cub_few_shot data.validation=null");
  EXPECT_EQ(birds.exit, 0) << birds.err;
  EXPECT_THAT(log(), HasSubstr("train: 36 images of 6 classes, from CUB_200_2011/images"));
  std::filesystem::remove_all(folder_ / "run");
  const Ended across =
      run("data=mini_imagenet_to_cub data.validation=null data.test=CUB/CUB_200_2011/images "
          "model.num_classes=12");
  EXPECT_EQ(across.exit, 0) << across.err;
  EXPECT_THAT(log(), HasSubstr("train: 72 images of 12 classes, from miniImagenet/all.json"));
  EXPECT_THAT(log(), HasSubstr("test: 18 images of 3 classes, from CUB/CUB_200_2011/images"));
}

TEST_F(FewShotData, CifarFsIsReadAsPublished) {
  make("image_folder --out dataset/CIFAR_FS/cifar100/data --classes 3");
  const std::filesystem::path lists = folder_ / "dataset/CIFAR_FS/cifar100/splits/bertinetto";
  std::filesystem::create_directories(lists);
  std::string names[3];
  std::size_t next = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_ / "dataset/CIFAR_FS/cifar100/data")) {
    if (entry.is_directory()) names[next++] = entry.path().filename().string();
  }
  folder_.write("dataset/CIFAR_FS/cifar100/splits/bertinetto/train.txt",
                names[0] + "\n" + names[1] + "\n");
  folder_.write("dataset/CIFAR_FS/cifar100/splits/bertinetto/test.txt", names[2] + "\n");
  const Ended ended = run("data=cifar_fs data.validation=null model.num_classes=2");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(
      log(), HasSubstr("train: 12 images of 2 classes, from cifar100/splits/bertinetto/train.txt"));
}

TEST_F(FewShotData, OverlappingTrainAndTestClassesAreRejected) {
  const Ended ended = run("data.test=all.json data.validation=null");
  EXPECT_EQ(ended.exit, 65);
  EXPECT_THAT(ended.err,
              testing::StartsWith("override 2:1:11: error[E0612]: train, validation and test must "
                                  "not overlap: train and test both contain the 6 classes '"));
  EXPECT_THAT(ended.err, HasSubstr("[/data/test]"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(FewShotData, MissingFolderIsReported) {
  const Ended ended = run("data=cub_few_shot");
  EXPECT_EQ(ended.exit, 66);
  EXPECT_THAT(ended.err, HasSubstr("error[E0601]: there is no folder 'dataset/CUB' [/data/root]"));
  EXPECT_THAT(ended.err, HasSubstr("`retort data fetch cub200 --out DIR` fetches birds"));
}

}  // namespace
