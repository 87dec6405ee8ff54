#include "stages/fetch/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "runner/disk/descriptor.h"
#include "runner/stage/stage.h"

namespace stages {
namespace {

void check(int result) {
  if (result != 1) throw std::runtime_error("OpenSSL refuses a digest");
}

const EVP_MD* method(DigestKind kind) {
  switch (kind) {
    case DigestKind::kMd5:
      return EVP_md5();
    case DigestKind::kSha1:
      return EVP_sha1();
    case DigestKind::kSha256:
      return EVP_sha256();
  }
  return nullptr;
}

[[noreturn]] void cannot_read(const std::filesystem::path& file, int error) {
  throw runner::StageError(runner::ErrorCode::kMissingFile,
                           "cannot read '" + file.string() + "': " + std::strerror(error));
}

}  // namespace

struct Digest::State {
  State() : context(EVP_MD_CTX_new()) {}
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* const context;
};

Digest::Digest(DigestKind kind) : state_(std::make_unique<State>()) {
  check(EVP_DigestInit_ex(state_->context, method(kind), nullptr));
}
Digest::Digest(Digest&&) noexcept = default;
Digest::~Digest() = default;

void Digest::update(std::string_view bytes) { check(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size())); }

std::string Digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(state_->context, digest.data(), &size));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
  return text;
}

std::string_view name_of(DigestKind kind) {
  switch (kind) {
    case DigestKind::kMd5:
      return "MD5";
    case DigestKind::kSha1:
      return "SHA-1";
    case DigestKind::kSha256:
      return "SHA-256";
  }
  return "";
}

std::string sum_of_file(const std::filesystem::path& file, const Checksum& like,
                        const std::function<void(std::int64_t bytes)>& step) {
  // Without waiting, so that a pipe of that name holds nothing up.
  const runner::Descriptor opened(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (!opened.is_open() || ::fstat(*opened, &status) != 0) cannot_read(file, errno);
  if (!S_ISREG(status.st_mode)) cannot_read(file, S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
  Digest digest(like.kind);
  if (like.is_git_blob) {
    const std::string head = "blob " + std::to_string(status.st_size);
    digest.update({head.c_str(), head.size() + 1});
  }
  std::string piece(1 << 20, '\0');
  std::int64_t bytes = 0;
  while (true) {
    const ssize_t size = ::read(*opened, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) cannot_read(file, errno);
    if (size == 0) return digest.finish();
    digest.update({piece.data(), static_cast<std::size_t>(size)});
    bytes += size;
    if (step) step(bytes);
  }
}

}  // namespace stages
