//! Types that travel as JSON derive their schemas for the server's OpenAPI document. Clients have
//! no use for those: for them this derive stands where utoipa's does, and makes nothing.

use proc_macro::TokenStream;

/// Makes nothing, and lets the attributes of utoipa's derive stand.
#[proc_macro_derive(ToSchema, attributes(schema))]
pub fn no_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
