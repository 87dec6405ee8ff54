#include "stages/plan/repetition.h"

#include <memory>
#include <optional>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/plan/meta_kernels.h"

namespace stages {
namespace {

const at::TensorOptions kMetaFloat = at::TensorOptions(at::kMeta).dtype(at::kFloat);

/// Counts how often the work is done for ten parts of two rows and one of one row.
struct Counted {
  /// `grows`: the work leaves a tensor that it does not free.
  explicit Counted(Repeated repeated = Repeated::kNoted, bool is_traced = true,
                   bool grows = false) {
    register_meta_kernels();
    std::optional<MemoryTrace> trace;
    if (is_traced) trace.emplace(Backend{}, repeated);
    const at::Tensor weight = torch::ones({3, 3}, kMetaFloat);
    std::vector<NamedTensors> kept;
    std::vector<at::Tensor> others;
    Repetition parts;
    for (std::int64_t part = 0; part < 11; ++part) {
      const std::int64_t rows = part < 10 ? 2 : 1;
      kept.push_back(parts.next(rows, [&]() -> NamedTensors {
        ++computed;
        if (grows) others.push_back(torch::empty({1}, kMetaFloat));
        return {{"rows", torch::ones({rows, 3}, kMetaFloat).mm(weight).t()}, {"weight", weight}};
      }));
    }
    if (!trace) return;
    kept.clear();
    events = trace->events().size();
    for (const TraceEvent& event : trace->events())
      live += (event.is_birth ? 1 : -1) * trace->storages()[event.storage].bytes;
    flops = trace->flops();
    operations = trace->launches();
  }
  int computed = 0;
  std::size_t events = 0;
  std::int64_t live = 0, operations = 0;
  double flops = 0;
};

TEST(Repetition, OnlyTwoEqualPartsAndTheLastOneAreComputed) {
  const Counted noted, all(Repeated::kComputed);
  EXPECT_EQ(noted.computed, 3);
  EXPECT_EQ(all.computed, 11);
  EXPECT_EQ(noted.events, all.events);
  EXPECT_EQ(noted.operations, all.operations);
  EXPECT_EQ(noted.flops, all.flops);
  EXPECT_EQ(noted.live, 36);  // the weight: saved tensors are freed
  EXPECT_EQ(all.live, 36);
}

TEST(Repetition, EverythingIsComputedWithoutATrace) {
  const Counted counted(Repeated::kNoted, false);
  EXPECT_EQ(counted.computed, 11);
}

TEST(Repetition, ReturnsTensorsOfTheSameShape) {
  register_meta_kernels();
  const MemoryTrace trace({});
  Repetition parts;
  for (int part = 0; part < 4; ++part) {
    const NamedTensors given = parts.next(2, [] {
      return NamedTensors{{"rows", torch::ones({2, 3}, kMetaFloat).t().slice(0, 1)}};
    });
    EXPECT_EQ(given.at("rows").sizes(), at::IntArrayRef({2, 2}));
    EXPECT_EQ(given.at("rows").strides(), at::IntArrayRef({1, 3}));
    EXPECT_EQ(given.at("rows").storage_offset(), 1);
    EXPECT_EQ(given.at("rows").scalar_type(), at::kFloat);
  }
}

/// Traces a batch of four units in parts of `size` units. Returns how many parts are computed.
int computed_parts(std::int64_t size, const std::shared_ptr<RecordedParts>& known) {
  register_meta_kernels();
  MemoryTrace trace({}, Repeated::kNoted, known);
  const torch::nn::Module network;
  const Batch batch({{"rows", torch::ones({4, 3}, kMetaFloat)}}, 4);
  Repetition parts({.name = "a loop", .batch = batch, .network = network});
  int computed = 0;
  for (std::int64_t begin = 0; begin < 4; begin += size) {
    parts.next(size, [&]() -> NamedTensors {
      ++computed;
      return {{"sum", batch.part(begin, begin + size)["rows"].sum()}};
    });
  }
  EXPECT_EQ(trace.launches(), 1 + 4 / size * 2) << "ones, and slice and sum for each part";
  return computed;
}

TEST(Repetition, TracesThatShareTheirPartsComputeThemOnce) {
  const auto known = std::make_shared<RecordedParts>();
  EXPECT_EQ(computed_parts(4, known), 1);
  EXPECT_EQ(computed_parts(4, known), 0);
  EXPECT_EQ(computed_parts(4, nullptr), 1);
  EXPECT_EQ(computed_parts(2, known), 2);
  EXPECT_EQ(computed_parts(2, known), 0);
}

TEST(Repetition, OnlyWholeBatchesAreKept) {
  const auto whole = std::make_shared<RecordedParts>(), cut = std::make_shared<RecordedParts>();
  computed_parts(4, whole);
  computed_parts(2, cut);
  for (const auto& known : {whole, cut}) known->keep_whole_batches();
  EXPECT_EQ(computed_parts(4, whole), 0);
  EXPECT_EQ(computed_parts(2, cut), 2);
}

TEST(Repetition, WorkWithLeftoverTensorsIsComputed) {
  const Counted counted(Repeated::kNoted, true, /*grows=*/true);
  EXPECT_EQ(counted.computed, 11);
}

}  // namespace
}  // namespace stages
