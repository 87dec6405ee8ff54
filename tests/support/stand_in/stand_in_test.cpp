// The mistakes that the stand-in detects, each made on purpose.

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/stand_in/faults.h"
#include "tests/support/stand_in/streams.h"

namespace stand_in {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

const at::Device kGpu(at::kCUDA, 0), kOther(at::kCUDA, 1);
const c10::impl::VirtualGuardImpl kGuard(at::kCUDA);

at::Tensor ones() { return at::ones({4}, kGpu); }
at::Tensor pinned() { return at::ones({4}, at::TensorOptions().pinned_memory(true)); }

TEST(StandIn, TensorOnTheWrongDeviceIsRejected) {
  EXPECT_THROW(ones() + at::ones({4}), c10::Error);
  EXPECT_THROW(ones() + at::ones({4}, kOther), c10::Error);
  EXPECT_THROW(at::mm(at::ones({2, 2}, kGpu), at::ones({2, 2})), c10::Error);
  EXPECT_THROW(at::cat({ones(), at::ones({4})}), c10::Error);
  EXPECT_NO_THROW(ones() + at::scalar_tensor(2)) << "a number is passed to the kernel";
  EXPECT_THROW(at::scalar_tensor(2).add_(at::ones({}, kGpu)), c10::Error) << "it is written";
  EXPECT_THROW(at::index_select(ones(), 0, at::scalar_tensor(2, at::kLong)), c10::Error);
}

TEST(StandIn, HostReadIsDetected) {
  const at::Tensor x = ones();
  EXPECT_EQ(*x.const_data_ptr<float>(), 1);
  EXPECT_THAT(take_faults(), ElementsAre(HasSubstr("host code touched")));
}

TEST(StandIn, HostWriteIsDetected) {
  const at::Tensor x = ones();
  *x.mutable_data_ptr<float>() = 3;
  EXPECT_THAT(take_faults(), ElementsAre(HasSubstr("host code touched")));
  EXPECT_EQ(x.sum().item<float>(), 6);
}

TEST(StandIn, CopyToTheHostArrivesWhenTheHostWaits) {
  const at::Tensor host = pinned(), x = ones() * 5;
  host.copy_(x, /*non_blocking=*/true);
  EXPECT_TRUE(std::isnan(host[0].item<float>()));
  c10::Event event(at::kCUDA);
  event.record(kGuard.getStream(kGpu));
  x.zero_();
  event.synchronize();
  EXPECT_TRUE(host.equal(at::full({4}, 5.F)));
}

TEST(StandIn, EarlyReuseOfPinnedMemoryIsDetected) {
  const at::Tensor host = pinned(), x = host.to(kGpu, /*non_blocking=*/true);
  host.fill_(2);
  kGuard.synchronizeDevice(0);
  EXPECT_THAT(take_faults(), ElementsAre(HasSubstr("the host changed pinned memory")));
}

TEST(StandIn, PinnedMemoryMayBeReusedAfterWaiting) {
  const at::Tensor host = pinned();
  const at::Tensor x = host.to(kGpu, /*non_blocking=*/true);
  kGuard.synchronizeDevice(0);
  host.fill_(2);
  at::Tensor gone = pinned();
  at::Tensor y = gone.to(kGpu, /*non_blocking=*/true);
  gone.reset();
  host.copy_(y, /*non_blocking=*/true);
  y.copy_(host, /*non_blocking=*/true);
  EXPECT_TRUE(y.cpu().equal(at::ones({4})));
}

TEST(StandIn, StreamThatDoesNotWaitForAnotherIsDetected) {
  const at::Tensor x = ones();
  {
    const c10::StreamGuard beside(kGuard.getNewStream(kGpu));
    x.add_(1);
    EXPECT_THAT(take_faults(), Contains(HasSubstr("without waiting")));
  }
  x.add_(1);
  EXPECT_THAT(take_faults(), Contains(HasSubstr("without waiting")));
}

TEST(StandIn, StreamThatWaitsForAnotherIsAccepted) {
  const at::Tensor x = ones();
  c10::Event made(at::kCUDA), added(at::kCUDA);
  made.record(kGuard.getStream(kGpu));
  {
    const c10::StreamGuard beside(kGuard.getNewStream(kGpu));
    made.block(beside.current_stream());
    x.add_(1);
    added.record(beside.current_stream());
  }
  added.block(kGuard.getStream(kGpu));
  x.add_(1);
  EXPECT_EQ(x.sum().item<float>(), 12);
}

TEST(StandIn, FreedMemoryOfAnotherStreamIsDetected) {
  const c10::Stream usual = kGuard.getStream(kGpu), other = kGuard.getNewStream(kGpu);
  const auto use_beside = [&](const at::Tensor& x) {
    c10::Event made(at::kCUDA);
    made.record(usual);
    made.block(other);
    const c10::StreamGuard beside(other);
    x.sum();
  };
  {
    const at::Tensor x = ones();
    use_beside(x);
  }
  EXPECT_THAT(take_faults(), ElementsAre(HasSubstr("memory is freed while another stream")));
  kGuard.synchronizeDevice(0);
  {
    const at::Tensor x = ones();
    use_beside(x);
    x.record_stream(other);
  }
  EXPECT_THAT(take_faults(), testing::IsEmpty());
}

TEST(StandIn, FreedMemoryIsNotUsed) {
  at::Tensor x = ones();
  const at::Tensor seen = at::from_blob(x.data_ptr(), {4}, x.options());
  x.reset();
  seen.add_(1);
  EXPECT_THAT(take_faults(), Contains(HasSubstr("memory that was freed")));
}

TEST(StandIn, NewMemoryIsFilledWithNan) {
  ones();
  EXPECT_TRUE(at::empty({4}, kGpu).isnan().all().item<bool>());
}

TEST(StandIn, CopyBetweenCardsIsOrdered) {
  const at::Tensor x = ones(), y = x.to(kOther);
  y.add_(1);
  x.copy_(y);
  EXPECT_EQ(x.sum().item<float>(), 8);
}

TEST(StandIn, LostCardThrows) {
  const at::Tensor x = ones();
  streams().lose(kGpu, 2);
  EXPECT_NO_THROW(x.add_(1));
  EXPECT_THROW(x.add_(1), c10::AcceleratorError);
  EXPECT_THROW(kGuard.synchronizeDevice(0), c10::AcceleratorError);
  EXPECT_THROW(card_allocator().getMemoryInfo(0), c10::AcceleratorError);
  EXPECT_NO_THROW(at::ones({4}, kOther));
  streams().lose(kGpu, 0);
  EXPECT_EQ(x.sum().item<float>(), 8);
}

TEST(StandIn, WorkIsUnfinishedUntilTheHostWaits) {
  kGuard.synchronizeDevice(0);
  const c10::Stream stream = kGuard.getStream(kGpu);
  EXPECT_TRUE(kGuard.queryStream(stream));
  const at::Tensor x = ones();
  EXPECT_FALSE(kGuard.queryStream(stream));
  EXPECT_EQ(x[0].item<float>(), 1);
  EXPECT_TRUE(kGuard.queryStream(stream)) << "the host has waited for that number";
  x.add_(1);
  int asked = 0;
  while (!kGuard.queryStream(stream)) ++asked;
  EXPECT_GT(asked, 0);
}

TEST(StandIn, MemoryAboveTheLimitIsRejected) {
  CardAllocator& allocator = card_allocator();
  const double before = allocator.share(0);
  allocator.emptyCache();
  const auto reserved = static_cast<double>(allocator.getDeviceStats(0).reserved_bytes[0].current);
  allocator.set_share((reserved + (64 << 20)) / CardAllocator::kBytes, 0);
  EXPECT_THROW(at::empty({65 << 20}, at::device(kGpu).dtype(at::kByte)), c10::OutOfMemoryError);
  EXPECT_NO_THROW(at::empty({63 << 20}, at::device(kGpu).dtype(at::kByte)));
  allocator.set_share(before, 0);
}

TEST(StandIn, OperatorsModifyTheSameTensorsAsOnACpu) {
  const at::Tensor x = at::arange(24, at::kFloat).reshape({2, 3, 4}), there = x.to(kGpu);
  const at::Tensor mean = at::zeros({3}), variance = at::ones({3});
  const at::Tensor mean_there = mean.to(kGpu), variance_there = variance.to(kGpu);
  const at::Tensor y = at::batch_norm(x, {}, {}, mean, variance, true, 0.1, 1e-5, false);
  const at::Tensor y_there =
      at::batch_norm(there, {}, {}, mean_there, variance_there, true, 0.1, 1e-5, false);
  EXPECT_TRUE(y_there.cpu().equal(y));
  EXPECT_TRUE(mean_there.cpu().equal(mean));
  EXPECT_TRUE(variance_there.cpu().equal(variance));
  at::Tensor sum = at::empty({0}, kGpu);
  at::sum_out(sum, there, at::IntArrayRef({0, 2}));
  EXPECT_TRUE(sum.cpu().equal(x.sum(at::IntArrayRef({0, 2})))) << "the result is resized";
  EXPECT_TRUE(there.transpose(0, 2).contiguous().cpu().equal(x.transpose(0, 2)));
}

}  // namespace
}  // namespace stand_in
