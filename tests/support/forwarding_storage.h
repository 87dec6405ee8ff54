#pragma once

#include <functional>
#include <utility>

#include "runner/shared/disk/storage.h"

/// The disk, for tests that override some calls.
class ForwardingStorage : public runner::Storage {
 public:
  int create(const std::filesystem::path& path) override { return runner::disk().create(path); }
  ssize_t write(int file, const char* data, std::size_t size) override {
    return runner::disk().write(file, data, size);
  }
  int sync(int file) override { return runner::disk().sync(file); }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return runner::disk().rename(from, to);
  }
  int make_folder(const std::filesystem::path& path) override {
    return runner::disk().make_folder(path);
  }
  int remove(const std::filesystem::path& path) override { return runner::disk().remove(path); }
  std::optional<std::uint64_t> free_bytes(const std::filesystem::path& path) override {
    return runner::disk().free_bytes(path);
  }
};

/// The disk without flushing, which is slow and matters only for power cuts.
class UnflushedStorage : public ForwardingStorage {
 public:
  int sync(int) override { return 0; }
};

/// The disk, with its calls counted like a Fault of kAny.
class CountingStorage : public ForwardingStorage {
 public:
  int create(const std::filesystem::path& path) override {
    return ++calls, ForwardingStorage::create(path);
  }
  ssize_t write(int file, const char* data, std::size_t size) override {
    return ++calls, ForwardingStorage::write(file, data, size);
  }
  int sync(int file) override { return ++calls, ForwardingStorage::sync(file); }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    return ++calls, ForwardingStorage::rename(from, to);
  }
  int make_folder(const std::filesystem::path& path) override {
    return ++calls, ForwardingStorage::make_folder(path);
  }
  int remove(const std::filesystem::path& path) override {
    return ++calls, ForwardingStorage::remove(path);
  }

  int calls = 0;
};

/// The disk with a replacement for write(2).
class WritingStorage : public ForwardingStorage {
 public:
  using Write = std::function<ssize_t(int file, const char* data, std::size_t size)>;
  explicit WritingStorage(Write write) : write_(std::move(write)) {}
  ssize_t write(int file, const char* data, std::size_t size) override {
    return write_(file, data, size);
  }

 private:
  Write write_;
};
