#include "stages/trace/onednn_product.h"

#include <algorithm>
#include <bit>

namespace stages::meta {
namespace {

constexpr std::int64_t kSum = 4, kFactor = 2;  // bytes of a number

bool is_power_of_two(std::int64_t n) { return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n)); }

/// What a thread multiplies at once: blocks of rows and columns over a stretch of the sum, and how many blocks of
/// columns come one after another. `sum_threads` add up one result.
struct Blocks {
  std::int64_t rows = 1, columns = 1, inner = 1, columns_in_turn = 1, sum_threads = 1;
};

/// How far `work` is from filling all of `seats` alike.
float unevenness(std::int64_t work, std::int64_t seats) {
  const std::int64_t rest = work % seats;
  const std::int64_t off = work < seats ? seats - rest : std::min(seats - rest, rest);
  return static_cast<float>(off) / static_cast<float>(seats);
}

/// oneDNN's measure of such blocks, the mean of five; it takes those with the least.
float unevenness(const ProductShape& shape, const Blocks& blocks, std::int64_t threads) {
  const auto real = [](std::int64_t n) { return static_cast<float>(n); };
  const std::int64_t others = threads / blocks.sum_threads;
  const std::int64_t work = divided_up(shape.rows, blocks.rows) *
                            divided_up(shape.columns, blocks.columns * blocks.columns_in_turn) * shape.batch;
  const std::int64_t columns = divided_up(shape.columns, blocks.columns),
                     in_turn = divided_up(columns, blocks.columns_in_turn) * blocks.columns_in_turn;
  const float of_work = unevenness(work, others),
              of_rows = real(rounded_up(shape.rows, blocks.rows) % shape.rows) / real(shape.rows),
              of_columns = real(in_turn - columns) / real(columns),
              of_threads = real(threads - others * blocks.sum_threads) / real(threads),
              of_inner = unevenness(shape.inner, blocks.sum_threads * blocks.inner);
  return (of_work + of_rows + of_columns + of_threads + of_inner) / 5;
}

/// True where the first factor is copied into blocks: where it is turned, or its rows are too far apart in memory.
bool copies_rows(const ProductShape& shape) {
  constexpr std::int64_t kFarApart = 8192 / kFactor, kMany = 1024;
  if (shape.is_turned) return shape.rows > 1;
  return is_power_of_two(shape.inner) && shape.inner >= kFarApart && shape.rows >= kMany;
}

/// The blocks of oneDNN's kernels for AVX-512.
Blocks blocks_of(const ProductShape& shape, std::int64_t threads) {
  constexpr std::int64_t kColumns = 64, kInner = 512;
  const bool is_turned = shape.is_turned || shape.rows == 1;  // one row is both
  const std::int64_t most_rows = std::min<std::int64_t>(256, shape.rows);
  const std::int64_t columns = std::min(kColumns, shape.columns);
  std::int64_t least_rows = std::min<std::int64_t>(32, shape.rows);
  const std::int64_t parts = divided_up(shape.columns, columns);
  const std::int64_t most_in_turn = std::min<std::int64_t>(copies_rows(shape) ? 16 : 1, parts);
  const std::int64_t inner = std::min(shape.inner, shape.inner > 2 * kInner && !is_turned ? 2 * kInner : kInner);
  std::int64_t sum_threads = 1;
  if (threads > shape.batch * parts) {  // too little work for all
    least_rows = std::min<std::int64_t>(16, shape.rows);
    if (shape.batch == 1 && is_turned && is_power_of_two(shape.inner) && shape.inner >= 4 * kInner)
      sum_threads = std::min<std::int64_t>(threads, 4);
  }
  Blocks best{.rows = least_rows, .columns = columns, .inner = inner};
  float least = 1;
  const bool may_share_sums = sum_threads > 1;
  for (; sum_threads >= 1; --sum_threads) {
    bool is_found = false;
    const std::int64_t others = threads / sum_threads;
    const auto look = [&](std::int64_t rows, std::int64_t in_turn) {
      const Blocks blocks{rows, columns, inner, in_turn, sum_threads};
      const float found = unevenness(shape, blocks, threads);
      if (found >= least) return;
      least = found;
      best = blocks;
      is_found = true;
    };
    for (std::int64_t in_turn = most_in_turn; in_turn >= 1; --in_turn) {
      for (std::int64_t rows = most_rows; rows >= least_rows; --rows) {
        const std::int64_t work =
            shape.batch * divided_up(shape.rows, rows) * divided_up(shape.columns, columns * in_turn);
        if (work < 3 * others && work % others != 0 && !may_share_sums) continue;
        look(rows, in_turn);
      }
    }
    if (!is_found) look(least_rows, 1);
  }
  return best;
}

/// What the kernels of AVX-512 with bfloat16 take, of blocks that each thread copies and adds up.
std::int64_t block_scratch(const ProductShape& shape, std::int64_t threads) {
  constexpr std::int64_t kBatch = 640, kLine = 32, kColumns = 64, kAligned = 128;
  const Blocks blocks = blocks_of(shape, threads);
  std::int64_t bytes = threads * kBatch + kAligned;
  if (copies_rows(shape)) {
    std::int64_t length = rounded_up(blocks.inner, kLine);
    if (length >= 512 && is_power_of_two(length)) length += kLine;
    bytes += threads * kFactor * blocks.rows * length + kAligned;
  }
  bytes += threads * kFactor * kColumns * rounded_up(blocks.inner, kLine) + kAligned;
  if (blocks.sum_threads > 1) {
    bytes += threads * kSum * shape.rows * shape.columns + kAligned;
  } else if (shape.keeps_sums) {
    const std::int64_t in_turn = blocks.inner < shape.inner ? blocks.columns_in_turn : 1;
    bytes += threads * kSum * blocks.rows * blocks.columns * in_turn + kAligned;
  }
  return bytes;
}

/// An upper bound of what is seen on processors that are not modelled.
std::int64_t bound(const ProductShape& shape, std::int64_t threads) {
  const std::int64_t rows = std::min<std::int64_t>(rounded_up(shape.rows, 32), shape.is_turned ? 512 : 256),
                     inner = rounded_up(shape.inner, 32), columns = 64;
  return threads * (kFactor * inner * (columns + (shape.is_turned ? rows : 0)) +
                    kSum * rows * columns * (shape.is_turned ? 2 : 1));
}

}  // namespace

bool takes_onednn(const ProductShape& shape) {
  constexpr std::int64_t kSmallest = 16 * 16 * 16;
  return shape.batch * shape.rows * shape.inner * shape.columns > kSmallest;
}

std::int64_t product_scratch(const ProductShape& shape, const Cpu& cpu) {
  constexpr std::int64_t kAligned = 1280;
  // Without instructions for bfloat16, the sums of each product; else of the blocks that a thread works on.
  const std::int64_t whole = std::min(cpu.threads, shape.batch) * kSum * shape.rows * shape.columns + kAligned;
  if (!cpu.processor.is_modelled) return bound(shape, cpu.threads) + whole;
  return cpu.processor.kernels == Kernels::kAvx512 ? whole : block_scratch(shape, cpu.threads);
}

}  // namespace stages::meta
