#include "stages/weights/torch_file.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "runner/shared/stage/stage.h"
#include "stages/weights/safetensors.h"
#include "tests/support/refused.h"
#include "tests/support/temporary_folder.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

/// Files written by torch.save, with their expected content (tests/golden/torch_files.py).
fs::path golden_file(const std::string& name) {
  return fs::path(RETORT_SOURCE_DIR) / "tests/golden/torch_files" / name;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

runner::Diagnostics refusal_of_file(const fs::path& path) {
  return refusals_of([&] { read_torch_file(path); });
}

class TorchFiles : public testing::TestWithParam<const char*> {};

TEST_P(TorchFiles, MatchTorch) {
  const std::string name = GetParam();
  const TorchFile read = read_torch_file(golden_file(name + ".pth"));
  const NamedTensors expected = read_safetensors(golden_file(name + ".safetensors")).tensors;
  std::string names, expected_names;
  for (const auto& [key, tensor] : read.tensors) names += key + '\n';
  for (const auto& [key, tensor] : expected) expected_names += key + '\n';
  ASSERT_EQ(names, expected_names);
  for (const auto& [key, tensor] : expected) {
    const at::Tensor& own = read.tensors.at(key);
    EXPECT_EQ(own.scalar_type(), tensor.scalar_type()) << key;
    EXPECT_EQ(own.sizes(), tensor.sizes()) << key;
    EXPECT_TRUE(own.is_contiguous()) << key;
    if (own.nbytes() != tensor.nbytes()) continue;
    EXPECT_EQ(std::memcmp(own.const_data_ptr(), tensor.const_data_ptr(), tensor.nbytes()), 0)
        << key;
  }
}

TEST_P(TorchFiles, ShapesAreReadWithoutData) {
  const NamedTensors whole = read_torch_file(golden_file(std::string(GetParam()) + ".pth")).tensors;
  const NamedTensors shapes =
      read_torch_file(golden_file(std::string(GetParam()) + ".pth"), WeightContents::kShapes)
          .tensors;
  ASSERT_EQ(shapes.size(), whole.size());
  for (const auto& [key, tensor] : whole) {
    EXPECT_TRUE(shapes.at(key).is_meta()) << key;
    EXPECT_EQ(shapes.at(key).sizes(), tensor.sizes()) << key;
    EXPECT_EQ(shapes.at(key).scalar_type(), tensor.scalar_type()) << key;
  }
}

TEST_P(TorchFiles, TensorsComeOneByOneAndOthersAreSkipped) {
  const fs::path path = golden_file(std::string(GetParam()) + ".pth");
  const NamedTensors whole = read_torch_file(path).tensors;
  const std::string left_out = whole.begin()->first;
  std::map<std::string, at::Tensor> seen;
  read_torch_file(path, {.wants = [&](const std::string& name) { return name != left_out; },
                         .take =
                             [&](const WeightPiece& piece) {
                               EXPECT_EQ(piece.begin, 0);
                               seen[piece.tensor] = piece.numbers.clone();
                             }});
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(whole.size() - 1));
  for (const auto& [name, numbers] : seen) {
    const at::Tensor& expected = whole.at(name);
    ASSERT_EQ(numbers.nbytes(), expected.nbytes()) << name;
    EXPECT_EQ(std::memcmp(numbers.const_data_ptr(), expected.const_data_ptr(), numbers.nbytes()), 0)
        << name;
  }
}

// The stream is read storage by storage; in a zip archive, libarchive has read ahead.
TEST(TorchFile, FileThatShrinksWhileReadingIsRejectedWithItsSize) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("a.pth", bytes_of(golden_file("checkpoint_stream.pth")));
  const std::uintmax_t size = fs::file_size(path);
  EXPECT_REFUSED(
      read_torch_file(path, {.wants = [](const std::string&) { return true; },
                             .take = [&](const WeightPiece&) { fs::resize_file(path, 20); }}),
      kDamagedWeights, "", path.string(), std::to_string(size), "20 bytes");
}

TEST_P(TorchFiles, ShareNoMemory) {
  const NamedTensors tensors =
      read_torch_file(golden_file(GetParam() + std::string(".pth"))).tensors;
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(tensor.storage().nbytes(), tensor.nbytes()) << name;
    EXPECT_EQ(tensor.storage().use_count(), 1) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(, TorchFiles,
                         testing::Values("state", "state_stream", "state_protocol_4",
                                         "state_stream_protocol_5", "views", "views_stream",
                                         "types", "types_stream", "parameters", "checkpoint",
                                         "checkpoint_nested", "checkpoint_stream", "parts",
                                         "script", "resnet_stream"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TorchFile, CheckpointReportsThePathOfItsModel) {
  EXPECT_EQ(read_torch_file(golden_file("state.pth")).inside, "");
  EXPECT_EQ(read_torch_file(golden_file("checkpoint.pth")).inside, "state_dict");
  EXPECT_EQ(read_torch_file(golden_file("checkpoint_stream.pth")).inside, "model_state_dict");
  EXPECT_EQ(read_torch_file(golden_file("checkpoint_nested.pth")).inside, "model.state_dict");
}

TEST(TorchFile, CodeIsReportedButNotRun) {
  for (const char* name : {"command.bad", "command_stream.bad"}) {
    EXPECT_REFUSED(refusal_of_file(golden_file(name)), kDamagedWeights, "", "posix.system",
                   "state_dict");
  }
  EXPECT_REFUSED(refusal_of_file(golden_file("module.bad")), kDamagedWeights, "",
                 "torch.nn.modules.container.Sequential");
}

TEST(TorchFile, InconsistentArchiveIsRejected) {
  const std::pair<const char*, const char*> files[] = {
      {"big_endian.bad", "its values have the byte order 'big', not little"},
      {"compressed.bad",
       "its entry 'state/data.pkl' is compressed or encrypted, which torch.save does not do"},
      {"huge.bad", "its tensors claim more bytes than the file has"},
      {"no_storage.bad", "it lacks the entry 'state/data/1'"},
      {"short_storage.bad", "its entry 'state/data/1' has 4 bytes, not 8"},
      {"twice.bad", "its entry 'state/data/0' appears twice"},
      {"two_pickles.bad", "it has more than one data.pkl"},
  };
  for (const auto& [name, why] : files) {
    const fs::path file = golden_file(name);
    EXPECT_REFUSED(refusal_of_file(file), kDamagedWeights, "", why) << name;
  }
}

TEST(TorchFile, TensorsCannotExceedTheFile) {
  const TemporaryFolder folder;
  std::string bytes = bytes_of(golden_file("state_stream.pth"));  // 1128 bytes
  for (const char* count : {"K\x06Ntq", "K\x02Ntq"})  // the first two storages have 200 floats each
    bytes.at(bytes.find(count) + 1) = static_cast<char>(200);
  EXPECT_REFUSED(refusal_of_file(folder.write("a.pth", bytes)), kDamagedWeights, "",
                 "more bytes than the file");
  EXPECT_REFUSED(refusal_of_file(folder.write("a.pth", bytes + std::string(1000, '\0'))),
                 kDamagedWeights, "", "'347865088' has 2 elements, not 200");
}

TEST(TorchFile, TruncationAnywhereIsRejected) {
  const TemporaryFolder folder;
  for (const char* name : {"state.pth", "state_stream.pth", "views_stream.pth"}) {
    const fs::path cut = folder / name;
    fs::copy_file(golden_file(name), cut);
    for (std::uintmax_t size = fs::file_size(cut); size-- > 0;) {
      fs::resize_file(cut, size);
      ASSERT_FALSE(refusal_of_file(cut).empty()) << name << " of " << size;
    }
  }
}

TEST(TorchFile, FlippedBitInArchiveDataIsDetected) {
  const TemporaryFolder folder;
  std::string bytes = bytes_of(golden_file("state.pth"));
  const float first = -1;
  const std::size_t at =
      bytes.find(std::string(reinterpret_cast<const char*>(&first), sizeof first));
  ASSERT_NE(at, bytes.npos);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  EXPECT_REFUSED(refusal_of_file(folder.write("flipped.pth", bytes)), kDamagedWeights, "",
                 "bad CRC");
}

TEST(TorchFile, InvalidBooleanByteIsRejected) {
  const TemporaryFolder folder;
  std::string bytes = bytes_of(golden_file("types_stream.pth"));
  const std::size_t at = bytes.find(std::string("\5\0\0\0\0\0\0\0\0\1\1\0\1", 13));
  ASSERT_NE(at, bytes.npos);
  for (std::size_t found = at; found != bytes.npos;
       found = bytes.find(std::string("\5\0\0\0\0\0\0\0\0\1\1\0\1", 13), found + 1)) {
    bytes[found + 9] = 2;
  }
  EXPECT_REFUSED(refusal_of_file(folder.write("a.pth", bytes)), kDamagedWeights, "", "torch.bool");
}

TEST(TorchFile, ForeignFileIsRejected) {
  const TemporaryFolder folder;
  EXPECT_REFUSED(refusal_of_file(folder.write("a", "")), kDamagedWeights, "", "ends early");
  EXPECT_REFUSED(refusal_of_file(folder.write("a", "\x80\x02}.")), kDamagedWeights, "", "pickle");
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  EXPECT_REFUSED(refusal_of_file(folder.write("a", tar)), kDamagedWeights, "", "tar archive");
  EXPECT_REFUSED(refusal_of_file(folder.path()), kDamagedWeights, "", "regular file");
  EXPECT_REFUSED(refusal_of_file(folder / "none"), kMissingWeights, "");
}

TEST(TorchFile, BothFormatsAreDetectedByTheirFirstBytes) {
  EXPECT_TRUE(is_torch_file(bytes_of(golden_file("state.pth"))));
  EXPECT_TRUE(is_torch_file(bytes_of(golden_file("state_stream.pth"))));
  EXPECT_FALSE(is_torch_file(bytes_of(golden_file("state.safetensors"))));
  EXPECT_FALSE(is_torch_file(""));
}

}  // namespace
}  // namespace stages
