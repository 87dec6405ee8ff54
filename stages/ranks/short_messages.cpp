#include "stages/ranks/short_messages.h"

#include <algorithm>
#include <cassert>

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace stages {
namespace {

constexpr std::int64_t kAlignment = 16, kNumberBytes = kAlignment, kLeastBytes = 1024;
constexpr int kTag = 1;  // RankGroup::send() uses 0

std::int64_t message_bytes(int size) {
  const std::int64_t each = std::max(ShortMessages::kAllBytes / size, kLeastBytes);
  return each / kAlignment * kAlignment;
}

}  // namespace

ShortMessages::ShortMessages(int rank, int size)
    : rank_(rank),
      size_(size),
      memory_(new std::uint8_t[static_cast<std::size_t>(size * message_bytes(size))]) {}

std::int64_t ShortMessages::most_bytes(int size) { return message_bytes(size) - kNumberBytes; }

std::uint8_t* ShortMessages::message(int rank) {
  return memory_.get() + rank * message_bytes(size_);
}

std::int64_t& ShortMessages::number(int rank) {
  return *reinterpret_cast<std::int64_t*>(message(rank));
}

std::uint8_t* ShortMessages::bytes(int rank) { return message(rank) + kNumberBytes; }

void ShortMessages::exchange(c10d::Backend& backend, std::int64_t bytes) {
  assert(bytes <= most_bytes(size_));
  const auto message_of = [&](int rank) {
    return std::vector<at::Tensor>{
        at::from_blob(message(rank), {kNumberBytes + bytes}, torch::kByte)};
  };
  std::vector<c10::intrusive_ptr<c10d::Work>> begun;
  for (int i = 1; i < size_; ++i) {
    const int from = (rank_ + size_ - i) % size_;
    std::vector<at::Tensor> theirs = message_of(from);
    begun.push_back(backend.recv(theirs, from, kTag));
  }
  std::vector<at::Tensor> own = message_of(rank_);
  for (int i = 1; i < size_; ++i) begun.push_back(backend.send(own, (rank_ + i) % size_, kTag));
  for (const auto& work : begun) work->wait();
}

}  // namespace stages
