// The member functions of Optimizer that keep its state in host memory, divided into pieces.

#include "stages/train/optimizer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace stages {

std::vector<BlockPart> Optimizer::movable_memory(const Slot& slot) const {
  std::vector<BlockPart> memory;
  for (const StatePart& part : movable_parts(slot))
    memory.push_back(memory_of(part, slot.parameter));
  return memory;
}

void Optimizer::make_pieces(const std::vector<std::size_t>& slots) {
  if (slots.size() == 1) return make_piece(slots);
  std::int64_t most = 0, bytes = 0;
  for (const Slot& slot : slots_) most = std::max(most, bytes_of(movable_memory(slot)));
  std::vector<std::size_t> piece;
  for (const std::size_t i : slots) {
    const Slot& slot = slots_[i];
    const bool is_alike =
        piece.empty() || (slots_[piece[0]].group == slot.group &&
                          slots_[piece[0]].parameter.scalar_type() == slot.parameter.scalar_type());
    const std::int64_t of_slot = bytes_of(movable_memory(slot));
    if (!is_alike || bytes + of_slot > most) {
      if (!piece.empty()) make_piece(std::exchange(piece, {}));
      bytes = 0;
    }
    piece.push_back(i);
    bytes += of_slot;
  }
  if (!piece.empty()) make_piece(std::move(piece));
}

void Optimizer::make_piece(std::vector<std::size_t> slots) {
  std::vector<BlockPart> memory;
  for (const std::size_t i : slots) {
    for (BlockPart& part : movable_memory(slots_[i])) memory.push_back(std::move(part));
  }
  if (memory.empty()) return;
  HostBlock block(std::move(memory), slots_[slots[0]].parameter.device());
  const std::vector<at::Tensor> tensors = block.tensors();
  std::size_t next = 0;
  for (const std::size_t i : slots) {
    for (const StatePart& part : movable_parts(slots_[i]))
      slots_[i].state.*part.tensor = tensors[next++];
    slots_[i].piece = pieces_.size();
  }
  pieces_.push_back({std::move(block), std::move(slots)});
}

std::int64_t Optimizer::offloaded_bytes() const {
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces_) bytes += piece.block.bytes();
  return bytes;
}

void Optimizer::divide_pieces() {
  const auto is_divided = [](const Piece& piece) { return piece.slots.size() == 1; };
  if (std::ranges::all_of(pieces_, is_divided)) return;
  const std::vector<Piece> whole = std::exchange(pieces_, {});
  for (const Piece& piece : whole) {
    piece.block.wait();
    for (const std::size_t i : piece.slots) {
      const Slot before = slots_[i];
      make_piece({i});
      for (const StatePart& part : movable_parts(before))
        (slots_[i].state.*part.tensor).copy_(before.state.*part.tensor);
    }
  }
}

void Optimizer::update_piece(Piece& piece, const at::Tensor& scratch, std::int64_t rule_bytes,
                             const std::optional<at::Tensor>& skip,
                             const std::optional<at::Tensor>& divisor) {
  const std::vector<Slot*> slots = with_gradient(piece.slots);
  if (slots.empty()) return;
  const at::Tensor of_piece = scratch.narrow(0, rule_bytes, piece.block.bytes());
  std::vector<at::Tensor> others = piece.block.bring(of_piece);
  const auto swap = [&] {
    auto other = others.begin();
    for (const std::size_t i : piece.slots) {
      for (const StatePart& part : movable_parts(slots_[i]))
        std::swap(slots_[i].state.*part.tensor, *other++);
    }
  };
  swap();
  update(slots, scratch, skip, divisor);
  swap();
  piece.block.put_back(of_piece);
}

}  // namespace stages
