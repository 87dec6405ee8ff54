#include "stages/artifact/dataset.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace stages {
namespace {

using About = std::map<std::string, std::string>;

DatasetDescription pictures() {
  return {.size = 7,
          .tensors = {{"image", {3, 24, 24}, at::kFloat}, {"label", {}, at::kLong}},
          .classes = {"cat", "the \"dog\""},
          .transform = R"({"kind":"image"})"};
}

/// Returns why the description with `text` under `key` is rejected.
std::string refusal(const std::string& key, const std::string& text) {
  About about = describe_data(pictures());
  about[key] = text;
  try {
    described_data(about);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(DataDescription, RoundTripKeepsAllButTheSize) {
  About about = describe_data(pictures());
  about["epoch"] = "3";  // a key that belongs to another part of the program
  const DatasetDescription back = described_data(about);
  EXPECT_EQ(back.size, 0);
  EXPECT_EQ(back.classes, pictures().classes);
  EXPECT_EQ(back.transform, pictures().transform);
  ASSERT_EQ(back.tensors.size(), 2u);
  EXPECT_EQ(back.tensors[0].name, "image");
  EXPECT_EQ(back.tensors[0].shape, (std::vector<std::int64_t>{3, 24, 24}));
  EXPECT_EQ(back.tensors[0].dtype, at::kFloat);
  EXPECT_TRUE(back.tensors[1].shape.empty());
  EXPECT_EQ(back.tensors[1].dtype, at::kLong);
}

TEST(DataDescription, IsWrittenAsReadableText) {
  const About about = describe_data(pictures());
  EXPECT_EQ(about.at("classes"), R"(["cat","the \"dog\""])");
  EXPECT_EQ(
      about.at("tensors"),
      R"([{"dtype":"float32","name":"image","shape":[3,24,24]},{"dtype":"int64","name":"label","shape":[]}])");
}

TEST(DataDescription, ClassPairKeepsTheNumberOfClasses) {
  DatasetDescription pair = pictures();
  pair.pair_of = 5;
  const About about = describe_data(pair);
  EXPECT_EQ(about.at("pair_of"), "5");
  EXPECT_EQ(described_data(about).pair_of, 5);
  EXPECT_EQ(logits_for(pair), 1);
  EXPECT_EQ(describe_data(pictures()).count("pair_of"), 0u);
  EXPECT_EQ(described_data(describe_data(pictures())).pair_of, 0);
  EXPECT_EQ(logits_for(pictures()), 2);
}

TEST(DataDescription, OrdinalHeadIsStored) {
  DatasetDescription grades = pictures();
  grades.classes = {"0", "1", "2"};
  EXPECT_EQ(logits_for(grades), 3);
  EXPECT_EQ(describe_data(grades).count("ordinal"), 0u);
  for (const OrdinalHead head : {OrdinalHead::kCoral, OrdinalHead::kCorn}) {
    grades.ordinal = head;
    EXPECT_EQ(described_data(describe_data(grades)).ordinal, head);
    EXPECT_EQ(logits_for(grades), 2);
  }
  for (const char* name : {"\"\"", "\"cumulative\"", "1", "coral"}) {
    EXPECT_EQ(refusal("ordinal", name),
              "its 'ordinal' is not a known head, or there are fewer than two classes")
        << name;
  }
}

TEST(DataDescription, ClassWordsAreStoredIfTheyDifferFromTheNames) {
  DatasetDescription folders = pictures();
  EXPECT_EQ(words_of(folders), folders.classes);
  folders.class_words = folders.classes;
  EXPECT_EQ(describe_data(folders).count("class_words"), 0u);
  folders.class_words = {"cat", "the dog"};
  EXPECT_EQ(words_of(folders), folders.class_words);
  EXPECT_EQ(described_data(describe_data(folders)).class_words, folders.class_words);
  EXPECT_EQ(described_data(describe_data(folders)).classes, folders.classes);
}

TEST(DataDescription, EveryFieldIsChecked) {
  EXPECT_EQ(refusal("classes", "{}"), "its 'classes' is not a list");
  EXPECT_EQ(refusal("classes", "[1]"), "its 'classes' has an invalid name");
  EXPECT_EQ(refusal("classes", "[\"a\""), "its 'classes' is not a list");
  EXPECT_EQ(refusal("tensors", "[1]"), "one of its 'tensors' is not a JSON object");
  EXPECT_EQ(refusal("class_words", "[\"cat\"]"),
            "its 'class_words' does not have one name per class");
  EXPECT_EQ(refusal("class_words", "[1]"), "its 'class_words' has an invalid name");
  const auto tensor = [](const std::string& name, const std::string& shape,
                         const std::string& type) {
    return refusal("tensors",
                   R"([{"name":)" + name + R"(,"shape":)" + shape + R"(,"dtype":)" + type + "}]");
  };
  EXPECT_EQ(tensor("\"image\"", "[3]", "\"float32\""), "accepted");
  EXPECT_EQ(tensor("1", "[3]", "\"float32\""),
            "one of its 'tensors' has a 'name' that is not a string");
  EXPECT_EQ(tensor('"' + std::string(1001, 'a') + '"', "[3]", "\"float32\""),
            "one of its 'tensors' has a 'name' that is not a valid name");
  EXPECT_EQ(tensor("\"image\"", "[3]", "\"float31\""),
            "one of its 'tensors' has a 'dtype' that is not a known type");
  EXPECT_EQ(tensor("\"image\"", "[3]", "\"float32\",\"more\":1"),
            "one of its 'tensors' has an unknown 'more'");
  EXPECT_EQ(tensor("\"image\"", "3", "\"float32\""),
            "one of its 'tensors' has a 'shape' that is not a list");
  for (const char* shape :
       {"[-1]", "[0]", "[1.5]", "[18446744073709551615]", "[65536, 65536]", "[\"3\"]"}) {
    EXPECT_EQ(tensor("\"image\"", shape, "\"float32\""),
              "one of its 'tensors' has a 'shape' that is not a valid shape")
        << shape;
  }
  EXPECT_EQ(refusal("transform", std::string(100'000, ' ')), "its 'transform' is too long");
  for (const char* number : {"1", "-5", "2.5", "five", "\"5\"", "18446744073709551615"}) {
    EXPECT_EQ(refusal("pair_of", number),
              "its 'pair_of' is not a number of classes, or there are not exactly two classes")
        << number;
  }
}

TEST(DataDescription, MissingFieldsAreRejected) {
  for (const char* key : {"classes", "tensors", "transform"}) {
    About about = describe_data(pictures());
    about.erase(key);
    try {
      described_data(about);
      ADD_FAILURE() << key;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "its '" + std::string(key) + "' is missing");
    }
  }
}

}  // namespace
}  // namespace stages
