#include "stages/weights/pickled_weights.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

namespace stages {
namespace {

using namespace std::string_literals;

constexpr std::int64_t kMost = 1000;

std::string number(std::int64_t value) {
  std::string bytes = "\x8a\x08";
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// Creates a tensor from a storage of 6 float32 values.
std::string tensor(std::int64_t offset, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>& strides) {
  std::string code =
      "ctorch._utils\n_rebuild_tensor\n((U\7storagectorch\nFloatStorage\nU\1kU\3cpuK\6tQ" +
      number(offset);
  for (const auto* numbers : {&sizes, &strides}) {
    code += '(';
    for (const std::int64_t value : *numbers) code += number(value);
    code += 't';
  }
  return code + "tR";
}

/// Returns the names of the tensors in a pickle with these opcodes, or the error.
std::string names(const std::string& code, const std::string& entry = "") {
  const std::string bytes = "\x80\x02" + code + '.';
  const Pickle pickle = read_pickle(bytes);
  try {
    const PickledWeights found = pickled_weights(pickle, kMost, entry);
    std::string text = found.inside.empty() ? "" : found.inside + ":";
    for (const PickledWeight& weight : found.weights)
      text += (text.empty() ? "" : " ") + weight.name;
    for (const std::string& other : found.others) text += ", not " + other;
    return text;
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

/// Returns the only tensor of a dictionary, or the error.
std::string bounds(std::int64_t offset, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>& strides) {
  const std::string bytes = "\x80\x02}U\1w" + tensor(offset, sizes, strides) + "s.";
  const Pickle pickle = read_pickle(bytes);
  try {
    const PickledWeights found = pickled_weights(pickle, kMost);
    return (found.weights[0].is_dense ? "dense " : "strided ") +
           std::to_string(found.weights[0].count);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

const std::string kTensor = tensor(0, {2}, {1});

TEST(PickledWeights, ViewMustBeInsideItsStorage) {
  const std::string beyond = "the tensor 'w' extends beyond its storage";
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(bounds(0, {2, 3}, {3, 1}), "dense 6");
  EXPECT_EQ(bounds(0, {1, 2, 3}, {99, 3, 1}), "dense 6");
  EXPECT_EQ(bounds(0, {3, 2}, {1, 3}), "strided 6");
  EXPECT_EQ(bounds(0, {5}, {1}), "strided 5");
  EXPECT_EQ(bounds(5, {}, {}), "strided 1");
  EXPECT_EQ(bounds(6, {}, {}), beyond);
  EXPECT_EQ(bounds(0, {7}, {1}), beyond);
  EXPECT_EQ(bounds(1, {2, 3}, {3, 1}), beyond);
  EXPECT_EQ(bounds(0, {2, 3}, {4, 1}), beyond);
  EXPECT_EQ(bounds(-1, {2}, {1}), beyond);
  EXPECT_EQ(bounds(0, {2}, {kLargest}), beyond);
  EXPECT_EQ(bounds(kLargest, {2}, {1}), beyond);
  EXPECT_EQ(bounds(0, {kLargest, kLargest}, {0, 0}), beyond);
  EXPECT_EQ(bounds(0, {-1}, {1}), "the tensor 'w' has a size or stride below 0");
  EXPECT_EQ(bounds(0, {2}, {-1}), "the tensor 'w' has a size or stride below 0");
  EXPECT_EQ(bounds(0, {2}, {1, 1}), "the tensor 'w' does not have as many strides as sizes");
}

TEST(PickledWeights, EmptyViewMayBeOutsideItsStorage) {
  EXPECT_EQ(bounds(0, {0, 7}, {7, 1}), "strided 0");
  EXPECT_EQ(bounds(6, {0}, {1}), "strided 0");
}

TEST(PickledWeights, ExpandedTensorsAreLimited) {
  EXPECT_EQ(bounds(0, {250}, {0}), "strided 250");
  EXPECT_EQ(bounds(0, {251}, {0}), "the tensor 'w' expands to far more bytes than the file has");
  EXPECT_EQ(names("}(U\1a" + tensor(0, {200}, {0}) + "U\1b" + tensor(0, {51}, {0}) + "u"),
            "the tensor 'b' expands to far more bytes than the file has");
}

TEST(PickledWeights, NamesAreKeyPaths) {
  EXPECT_EQ(names("}(U\1b" + kTensor + "U\1a}U\1c" + kTensor + "sU\1l]" + kTensor + "aK\7}U\1d" +
                  kTensor + "su"),
            "7.d a.c b l.0");
  EXPECT_EQ(names("c__torch__.A\nA\n)\x81}U\5model}U\1w" + kTensor + "ssb"), "model.w");
}

TEST(PickledWeights, ModelInACheckpointIsFound) {
  const std::string state = "}U\1w" + kTensor + "s";
  const std::string other = "U\5other" + state;
  for (const char* key : {"model", "state_dict", "model_state_dict"}) {
    const std::string entry = std::string("U") + static_cast<char>(std::strlen(key)) + key + state;
    EXPECT_EQ(names("}(" + other + entry + "u"), key + ": w, not other"s);
  }
  EXPECT_EQ(names("}U\5model}(U\nstate_dict" + state + other + "us"), "model.state_dict: w");
}

TEST(PickledWeights, ModelNameAloneIsNotEnough) {
  EXPECT_EQ(names("}(U\5model}U\1aK\1sU\1w" + kTensor + "u"), "w");
  EXPECT_EQ(names("}(U\5modelNU\1w" + kTensor + "u"), "w");
  EXPECT_EQ(names("}U\5model" + kTensor + "s"), "model");
}

TEST(PickledWeights, OneOfSeveralModelsIsChosenAsInTimm) {
  const std::string state = "}U\1w" + kTensor + "s";
  EXPECT_EQ(names("}(U\5model" + state + "U\nstate_dict" + state + "u"),
            "state_dict: w, not model");
  EXPECT_EQ(names("}(U\nstate_dict" + state + "U\x0estate_dict_ema" + state + "u"),
            "state_dict_ema: w, not state_dict");
  EXPECT_EQ(names("}(U\5model" + state + "U\x09model_ema" + state + "u"),
            "model_ema: w, not model");
}

TEST(PickledWeights, EntryCanBeSelected) {
  const std::string state = "}U\1w" + kTensor + "s";
  const std::string two =
      "}(U\nstate_dict" + state + "U\x0estate_dict_ema" + state + "U\1e}U\1f" + state + "su";
  EXPECT_EQ(names(two, "state_dict"), "state_dict: w, not state_dict_ema");
  EXPECT_EQ(names(two, "e.f"), "e.f: w, not state_dict, not state_dict_ema");
  EXPECT_EQ(names(two, "ema"), "has no entry 'ema'; it has 'state_dict', 'state_dict_ema'");
  const std::string flat =
      "}U\nstate_dict}(U\x09teacher.w" + kTensor + "U\x09student.w" + kTensor + "us";
  EXPECT_EQ(names(flat, "teacher"), "state_dict.teacher: w");
}

TEST(PickledWeights, AmbiguousModelsAreRejected) {
  const std::string wrapped = "}U\x08module.w" + kTensor + "s", plain = "}U\1w" + kTensor + "s",
                    other = "}U\1h" + kTensor + "s";
  const std::string both = "}(U\7student" + wrapped + "U\7teacher" + plain + "U\1h" + other + "u";
  EXPECT_EQ(names(both), "contains several models: 'student', 'teacher'");
  EXPECT_EQ(names(both, "teacher"), "teacher: w, not student, not h");
  EXPECT_EQ(names("}(U\10backbone" + plain + "U\4head" + other + "u"), "backbone.w head.h");
}

TEST(PickledWeights, RepeatedNameIsRejected) {
  EXPECT_EQ(names("}(U\1a" + kTensor + "U\1a" + kTensor + "u"), "the tensor 'a' appears twice");
  EXPECT_EQ(names("}(U\3a.b" + kTensor + "U\1a}U\1b" + kTensor + "su"),
            "the tensor 'a.b' appears twice");
}

TEST(PickledWeights, KeyThatIsNotANameIsRejected) {
  EXPECT_EQ(names("}U\1a}N" + kTensor + "ss"),
            "the key of a tensor is not a valid name, under 'a'");
  EXPECT_EQ(names("}U\2\xc3\x28" + kTensor + "s"),
            "the key of a tensor is not a valid name, under ''");
  EXPECT_EQ(names("}U\0"s + kTensor + "s"), "the key of a tensor is not a valid name, under ''");
}

TEST(PickledWeights, FileWithoutTensorsIsRejected) {
  EXPECT_EQ(names("}"), "it contains no tensors");
  EXPECT_EQ(names("]"), "it contains no dictionary of tensors");
  EXPECT_EQ(names(kTensor), "it contains no dictionary of tensors");
}

TEST(PickledWeights, RecursiveDictionaryIsRejected) {
  const std::string endless = "its dictionaries contain each other endlessly";
  EXPECT_EQ(names("}q\1U\1ah\1s"), endless);
  EXPECT_EQ(names("}q\1U\5modelh\1s"), endless);
  // Each of four dictionaries contains the previous one a hundred times as a model.
  std::string models = "}q\0010"s;
  for (char i = 2; i < 6; ++i) {
    models += '(';
    for (int j = 0; j < 100; ++j) models += "U\5modelh"s + static_cast<char>(i - 1);
    models += "dq"s + i + (i < 5 ? "0" : "");
  }
  EXPECT_EQ(names(models), endless);
  // Each dictionary contains the previous one twice, so 2^40 paths lead to the first.
  std::string doubling = "}q\1";
  for (char i = 2; i < 42; ++i)
    doubling +=
        "(U\1ah"s + static_cast<char>(i - 1) + "U\1bh" + static_cast<char>(i - 1) + "dq" + i;
  EXPECT_EQ(names("}U\1x(" + doubling + "ls"), endless);
}

}  // namespace
}  // namespace stages
