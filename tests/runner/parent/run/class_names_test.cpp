#include "runner/parent/run/image_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/parent/cli/prepare.h"
#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> unknown(const TemporaryFolder& folder, const std::string& training) {
  Sources sources;
  auto prepared = prepare_text(
      "schema: 1\ndata: {kind: data.image_folder, root: photos}\nmodel: {kind: model.cnn}\n"
      "memory: {kind: memory.policy}\ntrain: {" +
          training + "}\n",
      {}, shipped_schemas(), sources);
  if (!prepared) {
    for (const Diagnostic& error : prepared.errors())
      ADD_FAILURE() << error.pointer << " " << error.message;
    return {};
  }
  prepared->graph.working_folder = folder.path().string();
  std::vector<std::string> lines;
  for (const Diagnostic& error : unknown_classes(prepared->graph)) {
    EXPECT_NE(error.where.source, nullptr);
    lines.push_back(error.pointer + ": " + error.message + " | " + error.help);
  }
  return lines;
}

TEST(ClassNames, WeightsOfUnknownClassesAreReportedAtOnce) {
  const TemporaryFolder folder;
  folder.write("photos/rose/1.jpg", "");
  folder.write("photos/tulip/1.jpg", "");
  EXPECT_THAT(unknown(folder, "kind: train.supervised, class_weights: {rose: 2, rosse: 2, oak: 1}"),
              ElementsAre("/train/class_weights: class_weights names a class that the training "
                          "data lacks: 'rosse' | did you mean 'rose'?",
                          "/train/class_weights: class_weights names a class that the training "
                          "data lacks: 'oak' | "));
  EXPECT_THAT(unknown(folder, "kind: train.supervised, class_weights: {tulip: 2}"), IsEmpty());
}

TEST(ClassNames, ClassesMayBeInPartFolders) {
  const TemporaryFolder folder;
  folder.write("photos/train/rose/1.jpg", "");
  folder.write("photos/test/rose/1.jpg", "");
  EXPECT_THAT(unknown(folder, "kind: train.supervised, class_weights: {rose: 2}"), IsEmpty());
}

TEST(ClassNames, ClassesOfAPairAreChecked) {
  const TemporaryFolder folder;
  folder.write("photos/rose/1.jpg", "");
  folder.write("photos/tulip/1.jpg", "");
  EXPECT_THAT(
      unknown(folder, "kind: train.binary, classes: [rose, oak]"),
      ElementsAre("/train/classes: classes names a class that the training data lacks: 'oak' | "));
  EXPECT_THAT(unknown(folder, "kind: train.binary, classes: [0, 1]"), IsEmpty());
}

TEST(ClassNames, MissingFolderIsNotReported) {
  const TemporaryFolder folder;
  EXPECT_THAT(unknown(folder, "kind: train.supervised, class_weights: {rose: 2}"), IsEmpty());
}

}  // namespace
}  // namespace runner
