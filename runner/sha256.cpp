#include "runner/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace runner {

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, 32> digest;
  std::size_t size = digest.size();
  if (EVP_Q_digest(nullptr, "SHA256", nullptr, bytes.data(), bytes.size(), digest.data(), &size) != 1)
    throw std::runtime_error("OpenSSL has no SHA-256");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

}  // namespace runner
