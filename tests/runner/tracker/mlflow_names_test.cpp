#include "runner/tracker/mlflow_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace runner {
namespace {

TEST(MlflowNames, MetricAndOptionNamesAreKept) {
  for (const char* name : {"train/loss", "train.optimizer.learning_rate", "a b", "_-9"})
    EXPECT_EQ(mlflow_name(name), name);
}

TEST(MlflowNames, DisallowedCharactersAreReplaced) {
  EXPECT_EQ(mlflow_name("recall@5"), "recall_at_5");
  EXPECT_EQ(mlflow_name("train[rate=0.1]/loss"), "train_rate_0.1_/loss");
  EXPECT_EQ(mlflow_name("caf\xc3\xa9"), "cafc3a9");
}

TEST(MlflowNames, PathsAreNormalized) {
  EXPECT_EQ(mlflow_name("/a//../b/"), "_/a/_/_./b/_");
  EXPECT_EQ(mlflow_name(""), "_");
}

TEST(MlflowNames, LongNamesStayDistinct) {
  const std::string name(300, 'a');
  EXPECT_EQ(mlflow_name(name).size(), 250u);
  EXPECT_NE(mlflow_name(name), mlflow_name(name + "b"));
}

TEST(MlflowNames, LongValuesAreShortenedBetweenCharacters) {
  EXPECT_EQ(mlflow_value("short", 20), "short");
  EXPECT_EQ(mlflow_value("0123456789abcdefghijklm", 20), "0123456789a… (cut)");
  EXPECT_EQ(mlflow_value("0123456789\xc3\xa9"
                         "cdefghijklm",
                         20),
            "0123456789… (cut)");
}

}  // namespace
}  // namespace runner
