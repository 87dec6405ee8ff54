#include "stages/weights/safetensors.h"

#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/types.h>
#include <unistd.h>

#include "runner/shared/disk/fault.h"
#include "runner/shared/stage/stage.h"
#include "tests/support/refused.h"
#include "tests/support/shared_data.h"

namespace stages {
namespace {

namespace fs = std::filesystem;

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("safetensors.") +
               testing::UnitTest::GetInstance()->current_test_info()->name() + "." +
               std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~SafetensorsTest() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "w.safetensors"; }
  std::string bytes() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& text) const { std::ofstream(file(), std::ios::binary) << text; }
  /// Writes a file with this header and `data` bytes of data.
  void put_header(const std::string& header, std::size_t data) const {
    put_header(header, data, header.size());
  }
  void put_header(const std::string& header, std::size_t data, std::uint64_t claimed) const {
    std::string prefix(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) prefix[i] = static_cast<char>(claimed >> (8 * i));
    put(prefix + header + std::string(data, '\0'));
  }
  runner::Diagnostics refusal() const {
    return refusals_of([&] { read_safetensors(file()); });
  }

  fs::path folder_;
};

TEST_F(SafetensorsTest, RoundTripKeepsEverything) {
  torch::manual_seed(0);
  NamedTensors tensors;
  for (const auto dtype :
       {torch::kDouble, torch::kFloat, torch::kHalf, torch::kBFloat16, torch::kLong, torch::kInt,
        torch::kShort, torch::kChar, torch::kByte, torch::kBool}) {
    tensors.set(std::string("t.") + c10::toString(dtype), torch::randint(0, 2, {3, 5}).to(dtype));
  }
  tensors.set("scalar", torch::tensor(2.5));
  tensors.set("empty", torch::empty({0, 7}));
  tensors.set("strided", torch::arange(6).reshape({2, 3}).t());
  write_safetensors(file(), tensors, {{"classes", R"(["a","b\n"])"}});
  const Safetensors read = read_safetensors(file());
  EXPECT_EQ(read.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(read.tensors.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(read.tensors.at(name).equal(tensor)) << name;
  }
  EXPECT_EQ(read.metadata.at("classes"), R"(["a","b\n"])");
}

TEST_F(SafetensorsTest, EverySharedTypeSurvivesARoundTrip) {
  const std::pair<const char*, at::ScalarType> types[] = {{"BOOL", torch::kBool},
                                                          {"U8", torch::kByte},
                                                          {"I8", torch::kChar},
                                                          {"F8_E5M2", torch::kFloat8_e5m2},
                                                          {"F8_E4M3", torch::kFloat8_e4m3fn},
                                                          {"F8_E8M0", at::kFloat8_e8m0fnu},
                                                          {"F8_E4M3FNUZ", at::kFloat8_e4m3fnuz},
                                                          {"F8_E5M2FNUZ", at::kFloat8_e5m2fnuz},
                                                          {"I16", torch::kShort},
                                                          {"U16", torch::kUInt16},
                                                          {"F16", torch::kHalf},
                                                          {"BF16", torch::kBFloat16},
                                                          {"I32", torch::kInt},
                                                          {"U32", torch::kUInt32},
                                                          {"F32", torch::kFloat},
                                                          {"C64", torch::kComplexFloat},
                                                          {"F64", torch::kDouble},
                                                          {"I64", torch::kLong},
                                                          {"U64", torch::kUInt64}};
  for (const auto& [name, type] : types) {
    const at::Tensor ones = torch::ones({2, 3}).to(type);
    write_safetensors(file(), {{"a", ones}});
    EXPECT_NE(bytes().find("\"dtype\":\"" + std::string(name) + "\""), std::string::npos) << name;
    const at::Tensor read = read_safetensors(file()).tensors.at("a");
    EXPECT_EQ(read.scalar_type(), type) << name;
    EXPECT_EQ(std::memcmp(read.const_data_ptr(), ones.const_data_ptr(), ones.nbytes()), 0) << name;
  }
}

TEST_F(SafetensorsTest, UnsupportedTypeIsNotWritten) {
  EXPECT_REFUSED(write_safetensors(file(), {{"a", torch::ones(1, torch::kComplexDouble)}}),
                 kStageFailed, "", "'a'", "ComplexDouble");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(SafetensorsTest, SortsByTypeSizeThenNameAndAlignsTheData) {
  write_safetensors(file(),
                    {{"c", torch::zeros(1, torch::kHalf)},
                     {"b", torch::ones(1)},
                     {"d", torch::full({}, 2, torch::kLong)},
                     {"a", torch::zeros(1)}},
                    {{"format", "pt"}});
  std::string header =
      R"({"__metadata__":{"format":"pt"},"d":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]},)"
      R"("c":{"dtype":"F16","shape":[1],"data_offsets":[16,18]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  EXPECT_EQ(bytes(), length + header +
                         std::string("\2\0\0\0\0\0\0\0"
                                     "\0\0\0\0"
                                     "\0\0\x80\x3f"
                                     "\0\0",
                                     18));
}

TEST_F(SafetensorsTest, EmptyFileMatchesTheReferenceWriter) {
  write_safetensors(file(), {});
  EXPECT_EQ(bytes(), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_EQ(read_safetensors(file()).tensors.size(), 0);
}

TEST_F(SafetensorsTest, PeftAdaptersAreRewrittenByteForByte) {
  const auto folder = shared_data("cases/parity/lora");
  RETORT_NEEDS_SHARED(folder);
  int compared = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().filename() != "adapter_model.safetensors") continue;
    const Safetensors read = read_safetensors(entry.path());
    write_safetensors(file(), read.tensors, read.metadata);
    std::ifstream original(entry.path(), std::ios::binary);
    EXPECT_EQ(bytes(), std::string(std::istreambuf_iterator<char>(original), {})) << entry.path();
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST_F(SafetensorsTest, TensorsThatShareMemoryAreWrittenSeparately) {
  const at::Tensor all = torch::arange(6, torch::kFloat);
  write_safetensors(file(), {{"all", all}, {"part", all.slice(0, 1, 6, 2)}});
  const Safetensors read = read_safetensors(file());
  EXPECT_TRUE(read.tensors.at("part").equal(torch::tensor({1.F, 3.F, 5.F})));
  EXPECT_FALSE(read.tensors.at("all").is_alias_of(read.tensors.at("part")));
}

TEST_F(SafetensorsTest, DataMayBeUnaligned) {
  const std::string header =
      "{\"a\":"
      R"({"dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  ASSERT_NE(header.size() % 8, 0);
  std::string prefix(8, '\0');
  prefix[0] = static_cast<char>(header.size());
  put(prefix + header + std::string("\0\0\0\0\0\0\xf0\x3f", 8));
  EXPECT_EQ(read_safetensors(file()).tensors.at("a").item<double>(), 1.0);
}

TEST_F(SafetensorsTest, FailureAtAnyPointLeavesTheOldFileAndNoPartialFile) {
  write_safetensors(file(), {{"a", torch::ones(1)}});
  const std::string before = bytes();
  for (const char* point : {"create:1", "write:1", "write:2", "sync:1", "rename:1"}) {
    for (const char* action : {":fail", ":full"}) {
      runner::FaultyStorage storage(runner::disk(),
                                    runner::fault_from(point + std::string(action)));
      EXPECT_THROW(write_safetensors(file(), {{"a", torch::zeros(9)}}, {}, storage),
                   runner::StageError)
          << point;
      EXPECT_EQ(bytes(), before) << point;
      EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << point;
    }
  }
}

TEST_F(SafetensorsTest, FailedWriteLeavesTheOldFile) {
  write_safetensors(file(), {{"a", torch::ones(1)}});
  const std::string before = bytes();
  fs::create_directory(file().string() + ".part");  // blocks the write
  std::ofstream(fs::path(file().string() + ".part") / "x");
  EXPECT_REFUSED(write_safetensors(file(), {{"a", torch::zeros(1)}}), kCannotCreate, "",
                 file().string());
  EXPECT_EQ(bytes(), before);
}

TEST_F(SafetensorsTest, InterruptedWriteLeavesNothing) {
  write_safetensors(file(), {{"a", torch::ones(1)}});
  const std::string before = bytes();
  struct rlimit old = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {.rlim_cur = 4096, .rlim_max = old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    write_safetensors(file(), {{"a", torch::ones(100000)}});
  } catch (const runner::StageError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(message, "cannot write '" + file().string() + "': File too large");
  EXPECT_EQ(bytes(), before);
  EXPECT_FALSE(fs::exists(file().string() + ".part"));
}

TEST_F(SafetensorsTest, SymbolicLinkIsReplacedNotFollowed) {
  std::ofstream(folder_ / "other") << "precious";
  fs::create_symlink(folder_ / "other", file());
  fs::create_symlink(folder_ / "other", file().string() + ".part");
  write_safetensors(file(), {{"a", torch::ones(1)}});
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file())));
  EXPECT_EQ(fs::file_size(folder_ / "other"), 8);
}

TEST_F(SafetensorsTest, LeftoverOfAnInterruptedWriteIsHarmless) {
  std::ofstream(file().string() + ".part") << "half";
  write_safetensors(file(), {{"a", torch::ones(1)}});
  EXPECT_TRUE(read_safetensors(file()).tensors.at("a").equal(torch::ones(1)));
  EXPECT_FALSE(fs::exists(file().string() + ".part"));
}

TEST_F(SafetensorsTest, MissingFileIsReported) {
  EXPECT_REFUSED(read_safetensors(file()), kMissingWeights, "", file().string());
}

TEST_F(SafetensorsTest, TruncatedHeaderIsRejected) {
  put("");
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "0 bytes");
  put("1234567");
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "7 bytes");
  put_header("{}", 0, 3);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "claims 3 bytes", "10");
  put_header("{}", 0, 100'000'001);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "100000001", "100000000");
  put_header("{}", 0, 16'777'217);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "16777217", "16777216");
  put_header("{}", 0, ~std::uint64_t{0});
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "18446744073709551615");
}

TEST_F(SafetensorsTest, FolderIsRejected) {
  fs::create_directory(file());
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "regular file");
}

TEST_F(SafetensorsTest, NonJsonHeaderIsRejected) {
  put_header("", 0);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "begin with '{'");
  put_header("[]", 0);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "begin with '{'");
  put_header("{\"a\":", 0);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "not JSON");
  put_header(std::string("{}\0\0\0\0\0\0", 8), 0);  // padding that is not spaces
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "not JSON");
  put_header(" {}", 0);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "begin with '{'");
  put_header("{\"\xff\":{}}", 0);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "not JSON");
  put_header(std::string(100000, '{'), 0);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "not JSON");
  put_header("{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}", 0);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "too deeply");
}

std::string entry(const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "\"F32\"") {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST_F(SafetensorsTest, RepeatedNameIsRejected) {
  put_header("{\"a\":" + entry("[1]", "[0,4]") + ",\"a\":" + entry("[1]", "[4,8]") + "}", 8);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "'a' appears twice");
  put_header(R"({"a":{"dtype":"F32","shape":[1],"shape":[2],"data_offsets":[0,4]}})", 4);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "'shape' appears twice");
}

TEST_F(SafetensorsTest, DataMustBelongToExactlyOneTensor) {
  const auto two = [&](const std::string& first, const std::string& second) {
    return "{\"a\":" + entry("[1]", first) + ",\"b\":" + entry("[1]", second) + "}";
  };
  put_header(two("[0,4]", "[2,6]"), 6);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "'b' overlaps");
  put_header(two("[0,4]", "[6,10]"), 10);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "'b' leaves a gap");
  put_header(two("[0,4]", "[4,8]"), 9);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "1 bytes at its end");
  put_header(two("[0,4]", "[4,8]"), 7);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "'b' ends at byte 8 of 7");
  put_header(two("[4,8]", "[0,4]"), 8);
  EXPECT_THAT(refusal(), testing::IsEmpty());
}

TEST_F(SafetensorsTest, ImpossibleTensorIsRejected) {
  const auto refused = [&](const std::string& description) {
    put_header("{\"a\":" + description + "}", 4);
    return refusal();
  };
  EXPECT_REFUSED(refused(entry("[2]", "[0,4]")), kDamagedWeights, "", "needs 8 bytes but has 4");
  EXPECT_REFUSED(refused(entry("[4294967296,4294967296]", "[0,4]")), kDamagedWeights, "",
                 "is too large");
  EXPECT_REFUSED(refused(entry("[0,4294967296,4294967296]", "[0,4]")), kDamagedWeights, "",
                 "is too large");
  EXPECT_REFUSED(refused(entry("[-1]", "[0,4]")), kDamagedWeights, "",
                 "has the size -1 in its shape");
  EXPECT_REFUSED(refused(entry("[18446744073709551615]", "[0,4]")), kDamagedWeights, "",
                 "has the size 18446744073709551615 in its shape");
  EXPECT_REFUSED(refused(entry("[1.0]", "[0,4]")), kDamagedWeights, "",
                 "has the size 1.0 in its shape");
  EXPECT_REFUSED(refused(entry("4", "[0,4]")), kDamagedWeights, "",
                 "has a shape that is not a list");
  EXPECT_REFUSED(refused(entry("[1]", "[4,0]")), kDamagedWeights, "",
                 "has data_offsets that are not a range");
  EXPECT_REFUSED(refused(entry("[1]", "[0]")), kDamagedWeights, "",
                 "has data_offsets that are not a range");
  EXPECT_REFUSED(refused(entry("[1]", "[0,4]", "\"F33\"")), kDamagedWeights, "",
                 "has the unknown type 'F33'");
  EXPECT_REFUSED(refused(entry("[1]", "[0,4]", "7")), kDamagedWeights, "",
                 "has the unknown type '7'");
  EXPECT_REFUSED(refused("{}"), kDamagedWeights, "", "needs exactly dtype, shape and data_offsets");
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  EXPECT_REFUSED(refused(entry(ones + "]", "[0,4]")), kDamagedWeights, "", "has 65 dimensions");
}

TEST_F(SafetensorsTest, SubByteTypesAreCountedButNotRead) {
  const auto refused = [&](const char* type, const std::string& shape, int data) {
    put_header("{\"a\":" + entry(shape, "[0," + std::to_string(data) + "]", type) + "}", data);
    return refusal();
  };
  EXPECT_REFUSED(refused("\"F4\"", "[2,3]", 3), kDamagedWeights, "",
                 "has the type F4, which LibTorch does not support");
  EXPECT_REFUSED(refused("\"F6_E3M2\"", "[4]", 3), kDamagedWeights, "",
                 "has the type F6_E3M2, which LibTorch does not support");
  EXPECT_REFUSED(refused("\"F4\"", "[3]", 1), kDamagedWeights, "",
                 "does not end on a byte boundary");
  EXPECT_REFUSED(refused("\"F6_E2M3\"", "[4]", 4), kDamagedWeights, "", "needs 3 bytes but has 4");
}

TEST_F(SafetensorsTest, InvalidBooleanIsRejected) {
  std::string header = "{\"a\":" + entry("[1]", "[0,1]", "\"BOOL\"") + "}";
  std::string prefix(8, '\0');
  prefix[0] = static_cast<char>(header.size());
  put(prefix + header + "\x02");
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "'a'", "true and false");
}

TEST_F(SafetensorsTest, MetadataMustBeStrings) {
  put_header(R"({"__metadata__":{"epoch":3}})", 0);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "'epoch'");
  put_header(R"({"__metadata__":[]})", 0);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "__metadata__");
}

TEST_F(SafetensorsTest, NamesAreShownWithoutControlCharacters) {
  put_header("{\"a\\u001b[2J\":{}}", 0);
  EXPECT_REFUSED(refusal(), kDamagedWeights, "", "'a?[2J'");
}

TEST_F(SafetensorsTest, ManySmallTensorsAreReadQuickly) {
  NamedTensors tensors;
  std::vector<NamedTensors::Item> items;
  for (int i = 0; i < 20000; ++i) items.emplace_back("t" + std::to_string(i), torch::empty({0}));
  write_safetensors(file(), NamedTensors(std::move(items)));
  EXPECT_EQ(read_safetensors(file()).tensors.size(), 20000);
}

TEST_F(SafetensorsTest, ChunksOfATensorComeInOrderAndOthersAreSkipped) {
  const at::Tensor large = torch::arange(700000).to(at::kFloat),
                   flags = torch::tensor({true, false});
  write_safetensors(file(),
                    {{"a", torch::ones(3)}, {"flags", flags}, {"large", large.view({7, 100000})}});
  at::Tensor read = torch::zeros(700000);
  std::int64_t reached = 0;
  std::set<std::string> seen;
  read_safetensors(file(),
                   {.wants = [](const std::string& name) { return name != "a"; },
                    .take =
                        [&](const WeightPiece& piece) {
                          seen.insert(piece.tensor);
                          if (piece.tensor != "large") return;
                          EXPECT_EQ(piece.begin, reached);
                          EXPECT_LE(piece.numbers.nbytes(), 1U << 20);
                          read.narrow(0, piece.begin, piece.numbers.numel()).copy_(piece.numbers);
                          reached += piece.numbers.numel();
                        }});
  EXPECT_EQ(seen, (std::set<std::string>{"flags", "large"}));
  EXPECT_TRUE(read.equal(large));
}

TEST_F(SafetensorsTest, FileThatShrinksWhileReadingIsRejectedWithItsSize) {
  write_safetensors(file(), {{"a", torch::ones(1000)}, {"b", torch::ones(1000)}});
  const std::uintmax_t size = fs::file_size(file());
  EXPECT_REFUSED(
      read_safetensors(file(),
                       {.wants = [](const std::string&) { return true; },
                        .take = [&](const WeightPiece&) { fs::resize_file(file(), size - 3996); }}),
      kDamagedWeights, "", file().string(), std::to_string(size - 3996), std::to_string(size));
}

}  // namespace
}  // namespace stages
