#include "stages/weights/pickle.h"

#include <gtest/gtest.h>

namespace stages {
namespace {

using namespace std::string_literals;

/// Returns a pickle of protocol 2 with these opcodes.
std::string program(const std::string& code) { return "\x80\x02"s + code + '.'; }

/// Returns the error of reading `bytes`.
std::string refusal(const std::string& bytes) {
  try {
    read_pickle(bytes);
  } catch (const ForbiddenPickle& error) {
    return std::string("forbidden: ") + error.what();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "it was read";
}

template <typename T>
const T& as(const PickledValue* value) {
  return std::get<T>(value->data);
}

/// Returns a value in Python's notation; dictionaries of objects begin with "object".
std::string text(const PickledValue* value) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool truth) const { return truth ? "True" : "False"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return std::to_string(number); }
    std::string operator()(std::string_view text) const { return "'" + std::string(text) + "'"; }
    std::string operator()(const PickledLong& number) const {
      return std::to_string(number.bytes.size()) + " bytes";
    }
    std::string operator()(const PickledList& list) const {
      std::string all;
      for (const PickledValue* item : list.items) all += (all.empty() ? "" : ", ") + text(item);
      return "[" + all + "]";
    }
    std::string operator()(const PickledMap& map) const {
      std::string all;
      for (const auto& [key, item] : map.entries)
        all += (all.empty() ? "" : ", ") + text(key) + ": " + text(item);
      return (map.is_object ? "object{" : "{") + all + "}";
    }
    std::string operator()(const PickledGlobal& global) const {
      return std::string(global.module) + '.' + std::string(global.name);
    }
    std::string operator()(const PickledStorageIndex& storage) const {
      return "storage " + std::to_string(storage.index);
    }
    std::string operator()(const PickledTensorIndex& tensor) const {
      return "tensor " + std::to_string(tensor.index);
    }
    std::string operator()(const PickledOpaque&) const { return "opaque"; }
  };
  return std::visit(Visitor(), value->data);
}

std::string read(const std::string& bytes) {
  const Pickle pickle = read_pickle(bytes);
  EXPECT_EQ(pickle.length, bytes.size());
  return text(pickle.value);
}

const std::string kStorage = "(U\7storagectorch\nFloatStorage\nU\1kU\3cpuK\6tQ";

TEST(Pickle, EveryPythonProtocolIsRead) {
  // pickle.dumps({"a": [1, -2, 300, 70000, 2**40, 2**70], "b": (None, True, False, 1.5, "é"), 3:
  // {}}, protocol)
  const std::string expected =
      "{'a': [1, -2, 300, 70000, 1099511627776, 9 bytes], 'b': [None, True, False, 1.500000, 'é'], "
      "3: {}}";
  EXPECT_EQ(
      read(
          "\x80\x02}q\x00(X\x01\x00\x00\x00"s
          "aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,"
          "\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x09\x00\x00\x00\x00\x00"
          "\x00\x00\x00"s
          "@eX\x01\x00\x00\x00"s
          "bq\x03(N\x88\x89G?\xf8\x00\x00\x00\x00\x00\x00X\x02\x00\x00\x00\xc3\xa9q\x04tq\x05K\x03}q\x06u."s),
      expected);
  EXPECT_EQ(
      read("\x80\x05\x95J\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"s
           "a\x94]\x94(K\x01J\xfe\xff\xff\xffM,"
           "\x01Jp\x11\x01\x00\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x09\x00\x00\x00\x00"
           "\x00\x00\x00\x00"s
           "@e\x8c\x01"s
           "b\x94(N\x88\x89G?\xf8\x00\x00\x00\x00\x00\x00\x8c\x02\xc3\xa9\x94t\x94K\x03}\x94u."s),
      expected);
}

TEST(Pickle, RareOpcodesAreSupported) {
  EXPECT_EQ(read(program("K\1K\2\x86K\3\x85K\4K\5K\6\x87\x87"s)), "[[1, 2], [3], [4, 5, 6]]");
  EXPECT_EQ(read(program("(K\1K\2l")), "[1, 2]");
  EXPECT_EQ(read(program("(U\1aK\2d")), "{'a': 2}");
  EXPECT_EQ(read(program("]K\1a")), "[1]");
  EXPECT_EQ(read(program("}U\1aK\1s")), "{'a': 1}");
  EXPECT_EQ(read(program("K\1K\0020"s)), "1");
  EXPECT_EQ(read(program("K\1(K\2K\0031"s)), "1");
  EXPECT_EQ(read(program("K\0012\x86"s)), "[1, 1]");
  EXPECT_EQ(read(program("K\1r\0\1\0\0j\0\1\0\0\x86"s)), "[1, 1]");
  EXPECT_EQ(read(program("\x8a\1\xff\x8a\0\x8b\2\0\0\0\0\x80\x87"s)), "[-1, 0, -32768]");
  EXPECT_EQ(read(program("T\1\0\0\0aC\1bB\1\0\0\0c\x87"s)), "['a', 'b', 'c']");
  EXPECT_EQ(read(program("\x8d\1\0\0\0\0\0\0\0a\x8e\1\0\0\0\0\0\0\0b\x86"s)), "['a', 'b']");
  EXPECT_EQ(read(program("\x8c\5torch\x8c\5int64\x93"s)), "torch.int64");
}

TEST(Pickle, TorchContainersAreReadWithoutTorch) {
  EXPECT_EQ(read(program("ccollections\nOrderedDict\n)RU\1aK\1s")), "{'a': 1}");
  EXPECT_EQ(read(program("ccollections\nOrderedDict\n]]U\1aaK\1aa\x85R")), "{'a': 1}");
  EXPECT_EQ(read(program("ccollections\nOrderedDict\n)R}U\t_metadataK\1sb")), "{}");
  EXPECT_EQ(read(program("ctorch\nSize\nK\1K\2\x86\x85R")), "[1, 2]");
  EXPECT_EQ(read(program("ctorch.jit._pickle\nbuild_intlist\n]K\1a\x85R")), "[1]");
  EXPECT_EQ(read(program("ctorch.jit._pickle\nrestore_type_tag\n]U\tList[int]\x86R")), "[]");
  EXPECT_EQ(read(program("c__torch__.net\nNet\n)\x81}U\1aK\1sb")), "object{'a': 1}");
}

TEST(Pickle, UnsupportedObjectsAreOpaque) {
  const std::string opaque[] = {
      "ccollections\nCounter\n}K\1K\2s\x85R",
      "c__builtin__\nset\n]K\1a\x85R",
      "cbuiltins\nfrozenset\n]K\1a\x85R",
      "\x8f(K\1K\2\x90",
      "(K\1K\2\x91",
      "\x96\2\0\0\0\0\0\0\0ab"s,
      "ctorch\ndevice\nU\3cpu\x85R",
      "cargparse\nNamespace\n)\x81}U\2lrK\1sb",
      "cargparse\nNamespace\n)}\x92}U\2lrK\1sb",
      "ccollections\ndeque\n)\x81(K\1K\2e",
      "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nU\2f8K\0K\1\x87RU\10\0\0\0\0\0\0\0\0\x86R"s,
      "cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R("
      "K\1K\2\205cnumpy\ndtype\nU\2f4\x85R\x89"
      "U\10\0\0\0\0\0\0\0\0tb"s,
      "cpathlib\nPosixPath\nU\1/U\3tmp\x86R",
  };
  for (const std::string& code : opaque)
    EXPECT_EQ(read(program("}U\1a" + code + "s")), "{'a': opaque}") << code;
  EXPECT_EQ(read(program("ccollections\ndefaultdict\nc__builtin__\nlist\n\x85RU\4loss]K\1as")),
            "{'loss': [1]}");
}

TEST(Pickle, StorageIsIdentifiedByItsKey) {
  const std::string bytes = program(kStorage + kStorage + "\x86");
  const Pickle pickle = read_pickle(bytes);
  EXPECT_EQ(text(pickle.value), "[storage 0, storage 0]");
  ASSERT_EQ(pickle.storages.size(), 1);
  EXPECT_EQ(pickle.storages[0].key, "k");
  EXPECT_EQ(pickle.storages[0].type->name, "float32");
  EXPECT_EQ(pickle.storages[0].count, 6);
}

TEST(Pickle, TensorsOfEveryFormAreViewsOfTheirStorage) {
  const std::string place = kStorage + "K\1K\2K\3\x86K\3K\1\x86";
  const std::string programs[] = {
      program("ctorch._utils\n_rebuild_tensor\n(" + place + "tR"),
      program("ctorch._utils\n_rebuild_tensor_v2\n(" + place + "\x89NtR"),
      program("ctorch._utils\n_rebuild_tensor_v2\n(" + place + "\x89N}tR"),
      program("ctorch._utils\n_rebuild_tensor_v3\n(" + place + "\x89Nctorch\nuint32\ntR"),
      program("ctorch._utils\n_rebuild_parameter\nctorch._utils\n_rebuild_tensor\n(" + place +
              "tR\x88N\x87R"),
  };
  for (const std::string& bytes : programs) {
    const Pickle pickle = read_pickle(bytes);
    ASSERT_EQ(text(pickle.value), "tensor 0");
    const PickledTensor& tensor = pickle.tensors[0];
    EXPECT_EQ(tensor.offset, 1);
    EXPECT_EQ(tensor.sizes, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(tensor.strides, (std::vector<std::int64_t>{3, 1}));
    EXPECT_EQ(tensor.type->name, bytes.find("v3") == bytes.npos ? "float32" : "uint32");
  }
}

TEST(Pickle, StorageViewShiftsItsTensors) {
  const std::string bytes = program(
      "ctorch._utils\n_rebuild_tensor\n((U\7storagectorch\nFloatStorage\nU\1kU\3cpuK\6("
      "U\1vK\2K\4ttQ"
      "K\1K\2\x85K\1\x85tR");
  EXPECT_EQ(read_pickle(bytes).tensors[0].offset, 3);
}

TEST(Pickle, UnlistedGlobalsAreForbidden) {
  EXPECT_EQ(refusal(program("cos\nsystem\nU\1a\x85R")),
            "forbidden: loading it would run 'os.system'");
  EXPECT_EQ(refusal(program("\x8c\2os\x8c\6system\x93")),
            "forbidden: loading it would run 'os.system'");
  EXPECT_EQ(refusal(program("c__builtin__\neval\n")),
            "forbidden: loading it would run '__builtin__.eval'");
  EXPECT_EQ(refusal(program("ctorch\nload\n")), "forbidden: loading it would run 'torch.load'");
  EXPECT_EQ(refusal(program("ctorch.serialization\nFloatStorage\n")),
            "forbidden: loading it would run 'torch.serialization.FloatStorage'");
  EXPECT_EQ(refusal(program("c__torch__x\nA\n")), "forbidden: loading it would run '__torch__x.A'");
  EXPECT_EQ(refusal(program("ca\x1b\x7f\nb\n")), "forbidden: loading it would run 'a??.b'");
}

TEST(Pickle, AllowedGlobalsCannotBeCalledArbitrarily) {
  EXPECT_EQ(refusal(program("ctorch\nfloat32\n)R")),
            "forbidden: loading it would run 'torch.float32'");
  EXPECT_EQ(refusal(program("ctorch\nFloatStorage\n)R")),
            "forbidden: loading it would run 'torch.FloatStorage'");
  EXPECT_EQ(refusal(program("ctorch\nSize\n)R")), "forbidden: loading it would run 'torch.Size'");
  EXPECT_EQ(refusal(program("c__torch__.net\nNet\nK\1\x85\x81")),
            "forbidden: loading it would run '__torch__.net.Net'");
}

TEST(Pickle, InvalidProgramIsRejected) {
  const std::pair<std::string, const char*> programs[] = {
      {"", "its pickle ends early"},
      {"\x80\x01.", "its pickle has the unsupported protocol 1"},
      {"\x80\x06.", "its pickle has the unsupported protocol 6"},
      {program(""), "its pickle does not end with exactly one value"},
      {program("NN"), "its pickle does not end with exactly one value"},
      {program("(N"), "its pickle does not end with exactly one value"},
      {program("0"), "its pickle pops a value that does not exist"},
      {program("N(0"), "its pickle pops a value that does not exist"},
      {program("\x86"), "its pickle pops a value that does not exist"},
      {program("N(\x85"), "its pickle pops a value that does not exist"},
      {program("t"), "its pickle pops to a mark that does not exist"},
      {program("h\1"), "its pickle recalls a value that it never stored"},
      {program("Na"), "its pickle pops a value that does not exist"},
      {program("NNa"), "its pickle has an unexpected value instead of a list"},
      {program("NNNs"), "its pickle has an unexpected value instead of a dictionary"},
      {program("}(Nu"), "its pickle sets a key without a value"},
      {program("NNR"), "its pickle has an unexpected value instead of a function"},
      {program("NNb"), "its pickle has an unexpected value instead of a dictionary"},
      {program("NNQ"), "its pickle has an unexpected value instead of a storage's name"},
      {program("I1\n"), "its pickle has the code 0x49 at byte 2, which torch.save does not write"},
      {program("\x97"), "its pickle has the code 0x97 at byte 2, which torch.save does not write"},
      {program("X\xff\xff\xff\xff"), "its pickle ends early"},
      {program("\x8e\xff\xff\xff\xff\xff\xff\xff\xff"), "its pickle ends early"},
      {program("ctorch"), "its pickle ends early"},
  };
  for (const auto& [bytes, why] : programs) EXPECT_EQ(refusal(bytes), why);
}

TEST(Pickle, InconsistentStorageIsRejected) {
  const auto storage = [](const std::string& type, const std::string& count) {
    return "(U\7storagectorch\n" + type + "\nU\1kU\3cpu" + count + "tQ";
  };
  EXPECT_EQ(refusal(program(storage("float32", "K\1"))),
            "it has a storage of the unsupported type 'torch.float32'");
  EXPECT_EQ(refusal(program(storage("FloatStorage", "J\xff\xff\xff\xff"))),
            "the storage 'k' has an impossible size");
  EXPECT_EQ(refusal(program(storage("FloatStorage", "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f"))),
            "the storage 'k' has an impossible size");
  EXPECT_EQ(
      refusal(program(storage("FloatStorage", "K\1") + storage("FloatStorage", "K\2") + "\x86")),
      "the storage 'k' appears in two forms");
  EXPECT_EQ(
      refusal(program(storage("FloatStorage", "K\1") + storage("IntStorage", "K\1") + "\x86")),
      "the storage 'k' appears in two forms");
}

TEST(Pickle, InvalidTensorIsRejected) {
  const std::string start = "ctorch._utils\n_rebuild_tensor_v2\n(";
  EXPECT_EQ(refusal(program(start + "NK\0))\x89NtR"s)),
            "its pickle has an unexpected value instead of a storage");
  EXPECT_EQ(refusal(program(start + kStorage + "N))\x89NtR")),
            "its pickle has an unexpected value instead of a tensor's offset");
  EXPECT_EQ(refusal(program(start + kStorage + "K\1N)\x89NtR")),
            "its pickle has an unexpected value instead of a tensor's sizes");
  EXPECT_EQ(refusal(program(start + kStorage + "K\1)\x88\x85\x89NtR")),
            "its pickle has an unexpected value instead of a tensor's strides");
  EXPECT_EQ(refusal(program(start + kStorage + "tR")),
            "its pickle builds a tensor from too few or too many values");
  EXPECT_EQ(refusal(program(start + kStorage + "K\1))\x89N}U\4conj\x88stR")),
            "it has a tensor that must be conjugated or negated when it is read");
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "K\1";
  EXPECT_EQ(refusal(program(start + kStorage + "K\1" + many + "t)\x89NtR")),
            "it has a tensor of 65 dimensions");
}

TEST(Pickle, FewBytesCannotCreateManyValues) {
  const std::string why = "its pickle creates more than 2000000 values";
  EXPECT_EQ(refusal("\x80\x02" + std::string(2'000'001, 'N')), why);
  EXPECT_EQ(refusal("\x80\x02" + std::string(2'000'001, '(')), why);
  EXPECT_EQ(refusal("\x80\x02N" + std::string(2'000'001, '2')), why);
  EXPECT_EQ(refusal("\x80\x02N" + std::string(2'000'001, '\x94')), why);
  // Two objects repeatedly adopt each other's attributes.
  std::string doubling = "c__torch__.A\nA\n)\x81q\1c__torch__.A\nA\n)\x81q\2}U\1aK\1sb";
  for (int i = 0; i < 40; ++i) doubling += "h\1h\2b0h\2h\1b0";
  EXPECT_EQ(refusal(program(doubling)), why);
}

}  // namespace
}  // namespace stages
